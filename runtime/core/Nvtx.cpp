#include "runtime/core/Nvtx.h"

#include <cstdint>
#include <cstdlib>
#include <dlfcn.h>
#include <iterator>

using namespace divisi::runtime;

namespace {
// The interface between a tool and a program, from nvtx3/nvtxDetail/nvtxTypes.h: no header of NVTX is needed to build.
using Function = void (*)(); // of the tool; null: it ignores the event
using Push = int (*)(const char *);
using Pop = int (*)();
constexpr uint32_t callbacksId = 1, versionId = 3;         // NvtxExportTableID
constexpr uint32_t core = 1;                               // NvtxCallbackModule
constexpr uint32_t corePushA = 9, corePop = 11;            // NvtxCallbackIdCore
constexpr unsigned functions[] = {0, 15, 8, 14, 6, 15, 6}; // of each module; they are numbered from 1
constexpr unsigned modules = std::size(functions), mostFunctions = 15;

/// NvtxExportTableCallbacks.
struct Callbacks {
  size_t bytes;
  int (*functionTable)(uint32_t module, Function ***table, unsigned *size);
};
/// NvtxExportTableVersionInfo.
struct Version {
  size_t bytes;
  uint32_t version, reserved;
  void (*setToolVersion)(uint32_t);
};

/// The places into which a tool writes its functions, at any time. There is one for every function of NVTX, although
/// only two are called.
struct Places {
  Function function[modules][mostFunctions + 1] = {}; ///< by module and number
  Function *place[modules][mostFunctions + 2] = {};   ///< null for number 0 and after the last one
  Places() {
    for (unsigned module = 1; module < modules; ++module)
      for (unsigned number = 1; number <= functions[module]; ++number)
        place[module][number] = &function[module][number];
  }
  void clear() {
    for (auto &list : function)
      for (Function &one : list)
        one = nullptr;
  }
};
Places places;

int functionTable(uint32_t module, Function ***table, unsigned *size) {
  if (module == 0 || module >= modules)
    return 0;
  if (size)
    *size = functions[module] + 1;
  if (table)
    *table = places.place[module];
  return 1;
}

const void *exportTable(uint32_t id) {
  static const Callbacks callbacks{sizeof(Callbacks), functionTable};
  static const Version version{sizeof(Version), 3, 0, [](uint32_t) {}};
  return id == callbacksId ? static_cast<const void *>(&callbacks) : id == versionId ? &version : nullptr;
}

Result<bool> attachOnce() {
  const char *path = std::getenv("NVTX_INJECTION64_PATH");
  if (!path || !*path)
    return false;
  auto problem = [](const std::string &why) {
    return failure("NVTX_INJECTION64_PATH: ", why, ": no ranges for this profiler");
  };
  void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
  if (!library)
    return problem(dlerror());
  using Initialize = int (*)(const void *(*)(uint32_t));
  auto initialize = reinterpret_cast<Initialize>(dlsym(library, "InitializeInjectionNvtx2"));
  if (initialize && initialize(exportTable) != 0)
    return true;
  places.clear();
  dlclose(library);
  return problem(concat(path, initialize ? " does not start" : " has no InitializeInjectionNvtx2"));
}
} // namespace

Result<bool> nvtx::attach() {
  static const Result<bool> attached = attachOnce();
  return attached;
}

void nvtx::push(const char *name) {
  if (auto function = reinterpret_cast<Push>(places.function[core][corePushA]))
    function(name);
}

void nvtx::pop() {
  if (auto function = reinterpret_cast<Pop>(places.function[core][corePop]))
    function();
}
