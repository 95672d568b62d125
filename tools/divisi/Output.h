#pragma once
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <string>

namespace divisi::tools {

/// Checks before long work that a file can be written. Returns an error text, or "". An empty name stands for no file.
std::string checkOutput(const std::string &file);

/// The same for a program and its file of weights.
std::string checkProgram(const std::string &path);

/// Writes a file atomically ("-": to standard output). Returns an error text, or "".
std::string writeOutput(const std::string &file, llvm::function_ref<void(llvm::raw_ostream &)> print);

} // namespace divisi::tools
