#include "runtime/devices/cuda/Library.h"

#include <dlfcn.h>

using namespace divisi::runtime;

void *cuda::openLibrary(std::initializer_list<const char *> names, const char *what) {
  std::string last;
  for (const char *name : names) {
    if (void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL))
      return library;
    last = dlerror();
  }
  throw std::runtime_error(concat(what, " is missing (", last, ")"));
}

void *cuda::findSymbol(void *library, const char *name) {
  if (void *symbol = dlsym(library, name))
    return symbol;
  throw std::runtime_error(concat("a CUDA library is too old or too new: it has no '", name, "'"));
}
