#pragma once
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"

#include <memory>

namespace divisi::compiler {

/// What a program needs besides the static runtime.
struct LinkOptions {
  bool mpi = false;  // for many ranks: libdivisi_mpi.a
  bool cuda = false; // for GPUs: libdivisi_cuda.a
};

/// Links a program's objects with the static runtime into an executable, by the system's C++ compiler. `libraryFolder`
/// holds libdivisi_runtime.a and what the options name. Fails with the linker's words.
llvm::Error linkProgram(llvm::ArrayRef<std::unique_ptr<llvm::MemoryBuffer>> objects, llvm::StringRef output,
                        llvm::StringRef libraryFolder, const LinkOptions &options);

} // namespace divisi::compiler
