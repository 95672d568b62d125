#pragma once
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <string>

namespace divisi::tools {

/// Whether a file can be written, to be asked before long work; what is wrong, or nothing. An empty name is no file.
std::string checkOutput(const std::string &file);

/// Writes a file ("-": the standard output), whole or not at all; what is wrong, or nothing.
std::string writeOutput(const std::string &file, llvm::function_ref<void(llvm::raw_ostream &)> print);

} // namespace divisi::tools
