//===- Library.h - shared libraries opened at run time ----------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DEVICES_CUDA_LIBRARY_H
#define DIVISI_RUNTIME_DEVICES_CUDA_LIBRARY_H

#include "runtime/core/Status.h"

#include <initializer_list>
#include <stdexcept>

namespace divisi::runtime::cuda {

/// Opens the first of these libraries that exists, for the lifetime of the process. Throws std::runtime_error that
/// `what` is missing.
void *openLibrary(std::initializer_list<const char *> names, const char *what);

/// A function of a library. Throws std::runtime_error if the library does not have it, because it is too old.
void *findSymbol(void *library, const char *name);

template <typename Function> void bind(void *library, const char *name, Function *&function) {
  function = reinterpret_cast<Function *>(findSymbol(library, name));
}

} // namespace divisi::runtime::cuda

#endif // DIVISI_RUNTIME_DEVICES_CUDA_LIBRARY_H
