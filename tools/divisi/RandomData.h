#pragma once
#include "llvm/Support/Error.h"

#include <cstdint>
#include <string>
#include <vector>

namespace divisi::tools {

/// Writes .npy files that a program can train on into a folder: uniform numbers in [0, 1), and zeros for integers,
/// which are valid classes and tokens everywhere. Gives the program's flags for them, and its number of ranks. An
/// error where the program does not describe itself.
llvm::Error writeRandomData(const std::string &program, const std::string &folder, std::vector<std::string> &flags,
                            int64_t &ranks);

} // namespace divisi::tools
