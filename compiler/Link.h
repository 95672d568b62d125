#pragma once
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"

#include <memory>

namespace divisi::compiler {

/// The libraries of a program beside the static runtime.
struct LinkOptions {
  bool mpi = false;  // for several ranks: libdivisi_mpi.a
  bool cuda = false; // for GPUs: libdivisi_cuda.a
};

/// Links a program's objects with the static runtime into an executable, by the system's C++ compiler. `libraryFolder`
/// contains libdivisi_runtime.a and the libraries of the options. An error has the linker's output.
llvm::Error linkProgram(llvm::ArrayRef<std::unique_ptr<llvm::MemoryBuffer>> objects, llvm::StringRef output,
                        llvm::StringRef libraryFolder, const LinkOptions &options);

} // namespace divisi::compiler
