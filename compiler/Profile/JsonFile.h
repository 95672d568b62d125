#pragma once
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

#include <string>

namespace divisi::compiler {

/// The file that an environment variable names, or one of this name in the user's cache folder (XDG_CACHE_HOME/divisi).
std::string cachedFile(const char *variable, llvm::StringRef name);

/// The text of a file of measurements; an error of one line if it cannot be read, is too large, or nests too deep. `kind` names what
/// it should be.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> readText(const std::string &file, llvm::StringRef kind = "profile");

/// Writes the file atomically, and its folder if there is none.
llvm::Error writeJson(const std::string &file, llvm::json::Object content);

} // namespace divisi::compiler
