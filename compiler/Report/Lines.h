#pragma once
#include "llvm/Support/JSON.h"

#include <string>
#include <utility>
#include <vector>

// What the text reports are made of.
namespace divisi::compiler {

/// A number of a report; 0 if it is not there.
double number(const llvm::json::Object &object, llvm::StringRef key);
/// A text without control characters: names come from files and are printed on a terminal.
std::string text(const llvm::json::Object &object, llvm::StringRef key);
/// A list; empty if it is not there.
const llvm::json::Array &list(const llvm::json::Object &object, llvm::StringRef key);
/// Words with separators between them.
std::string joined(const llvm::json::Array &array, llvm::StringRef separator = " ");

/// Prints cells with their widths, to the right where a width is negative.
void row(llvm::raw_ostream &out, const std::vector<std::pair<std::string, int>> &cells);

} // namespace divisi::compiler
