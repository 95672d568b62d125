//===- BeforeLoading.h - before libraries are initialized -------*- C++ -*-===//
// For functions in .preinit_array. The C library and sanitizers are not ready yet: only system calls are used.
#ifndef DIVISI_RUNTIME_CORE_BEFORELOADING_H
#define DIVISI_RUNTIME_CORE_BEFORELOADING_H

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DIVISI_BEFORE_LOADING __attribute__((no_sanitize("address", "undefined", "thread")))

namespace divisi::runtime::before {

/// The value of a variable in an environment; null if it is not set.
DIVISI_BEFORE_LOADING inline const char *valueOf(const char *name, char **environment) {
  for (; *environment; ++environment) {
    const char *at = *environment, *letter = name;
    while (*letter && *at == *letter)
      ++at, ++letter;
    if (!*letter && *at == '=')
      return at + 1;
  }
  return nullptr;
}

/// The number of processors in the affinity mask of this process.
DIVISI_BEFORE_LOADING inline int processorsAllowed() {
  unsigned long mask[128] = {};
  long bytes = syscall(SYS_sched_getaffinity, 0, sizeof mask, mask);
  int processors = 0;
  for (long i = 0; i < bytes / static_cast<long>(sizeof mask[0]); ++i)
    processors += __builtin_popcountl(mask[i]);
  return processors > 0 ? processors : 1;
}

/// The number at the beginning of OMP_NUM_THREADS, or else that of the processors allowed.
DIVISI_BEFORE_LOADING inline int threadsOf(char **environment) {
  int threads = 0;
  for (const char *at = valueOf("OMP_NUM_THREADS", environment); at && *at >= '0' && *at <= '9' && threads < 1000; ++at)
    threads = 10 * threads + *at - '0';
  return threads > 0 ? threads : processorsAllowed();
}

} // namespace divisi::runtime::before

#endif // DIVISI_RUNTIME_CORE_BEFORELOADING_H
