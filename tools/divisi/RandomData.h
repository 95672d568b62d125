#pragma once
#include "llvm/Support/Error.h"

#include <cstdint>
#include <string>
#include <vector>

namespace divisi::tools {

/// Writes .npy files into a folder on which a program can train: uniform numbers in [0, 1), and zeros for integers,
/// which are valid as classes and tokens. Returns the program's flags for them, and its number of ranks. Fails if the
/// program does not describe itself.
llvm::Error writeRandomData(const std::string &program, const std::string &folder, std::vector<std::string> &flags,
                            int64_t &ranks);

} // namespace divisi::tools
