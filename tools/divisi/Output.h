#pragma once
#include "divisi/Commands.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <string>

namespace divisi::tools {

/// Checks before long work that the file that a flag names can be written, and that no other argument of the command
/// names it. Returns an error text, or "". An empty name stands for no file.
std::string checkOutput(const CLI::App &command, const std::string &flag, const std::string &file);

/// The same for the program that -o names and its file of weights, which may replace the one of a program only.
std::string checkProgram(const CLI::App &command, const std::string &path);

/// Writes a file atomically ("-": to standard output). Returns an error text, or "".
std::string writeOutput(const std::string &file, llvm::function_ref<void(llvm::raw_ostream &)> print);

} // namespace divisi::tools
