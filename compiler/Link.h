#pragma once
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"

namespace divisi::compiler {

/// Links a program's object with the static runtime into an executable, by the system's C++ compiler. `libraryFolder`
/// holds libdivisi_runtime.a. Fails with the linker's words.
llvm::Error linkProgram(llvm::MemoryBufferRef object, llvm::StringRef output, llvm::StringRef libraryFolder);

} // namespace divisi::compiler
