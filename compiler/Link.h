#pragma once
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"

#include <memory>

namespace divisi::compiler {

/// Links a program's objects with the static runtime into an executable, by the system's C++ compiler. `libraryFolder`
/// holds libdivisi_runtime.a and, for programs of many ranks, libdivisi_mpi.a. Fails with the linker's words.
llvm::Error linkProgram(llvm::ArrayRef<std::unique_ptr<llvm::MemoryBuffer>> objects, llvm::StringRef output,
                        llvm::StringRef libraryFolder, bool manyRanks);

} // namespace divisi::compiler
