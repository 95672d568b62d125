//===- Library.h - shared libraries opened at run time ----------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DEVICES_CUDA_LIBRARY_H
#define DIVISI_RUNTIME_DEVICES_CUDA_LIBRARY_H

#include "runtime/core/Status.h"

#include <functional>
#include <initializer_list>
#include <stdexcept>

namespace divisi::runtime::cuda {

/// A shared library that is open for the lifetime of the process.
struct Library {
  void *handle = nullptr;
  std::string file;
};

/// Opens the first of these libraries that exists and that `start` accepts: a library of CUDA 13 does not start under a
/// driver for CUDA 12, but the one of CUDA 12 beside it does. `start` throws std::runtime_error if it cannot use the
/// library. Throws std::runtime_error that `what` is missing, or why no library can be used.
Library openLibrary(std::initializer_list<const char *> names, const char *what,
                    const std::function<void(void *library)> &start = {});

/// A function of a library. Throws std::runtime_error if the library does not have it, because it is too old.
void *findSymbol(void *library, const char *name);

template <typename Function> void bind(void *library, const char *name, Function *&function) {
  function = reinterpret_cast<Function *>(findSymbol(library, name));
}

/// Throws std::runtime_error that a library does not start, unless `status` is 0.
inline void checkStart(int status) {
  if (status != 0)
    throw std::runtime_error(concat("it does not start with this driver and GPU, status ", status));
}

} // namespace divisi::runtime::cuda

#endif // DIVISI_RUNTIME_DEVICES_CUDA_LIBRARY_H
