#include "runtime/devices/cuda/Library.h"

#include <dlfcn.h>

using namespace divisi::runtime;

cuda::Library cuda::openLibrary(std::initializer_list<const char *> names, const char *what,
                                const std::function<void(void *)> &start) {
  std::string missing, unusable;
  for (const char *name : names) {
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      missing = dlerror();
      continue;
    }
    try {
      if (start)
        start(library);
      return {library, name};
    } catch (const std::runtime_error &problem) { // it stays open: its threads may run
      unusable += concat(unusable.empty() ? "" : "; ", name, ": ", problem.what());
    }
  }
  if (unusable.empty())
    throw std::runtime_error(concat(what, " is missing (", missing, ")"));
  throw std::runtime_error(concat(what, " cannot be used (", unusable, ")"));
}

void *cuda::findSymbol(void *library, const char *name) {
  if (void *symbol = dlsym(library, name))
    return symbol;
  throw std::runtime_error(concat("a CUDA library is too old or too new: it has no '", name, "'"));
}
