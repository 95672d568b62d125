#include "runtime/devices/cpu/Blas.h"

#include <array>
#include <cblas.h>
#include <sched.h>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace divisi::runtime;

namespace {
// OpenBLAS allocates 128 MiB of address space for each thread when it is loaded, and for each thread that calls it; if
// it cannot, it retries forever. Both allocations are therefore tried here first.
constexpr size_t bufferBytes = (size_t(128) << 20) + 8192;
constexpr int mostBuffers = 256;
int loadedFor = 0; ///< threads

// Before the libraries are initialized, when sanitizers are not ready either, only system calls are used.
__attribute__((no_sanitize("address", "undefined", "thread"))) bool hasMemoryFor(int buffers) {
  void *taken[mostBuffers];
  int count = 0;
  for (; count < buffers && count < mostBuffers; ++count) {
    long address = syscall(SYS_mmap, nullptr, bufferBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
    if (address == -1)
      break;
    taken[count] = reinterpret_cast<void *>(address);
  }
  bool enough = count == buffers || count == mostBuffers;
  while (count > 0)
    syscall(SYS_munmap, taken[--count], bufferBytes);
  return enough;
}

/// The number at the beginning of OMP_NUM_THREADS, or else the number of processors that this process may use.
__attribute__((no_sanitize("address", "undefined", "thread"))) int threadsOf(char **environment) {
  constexpr const char name[] = "OMP_NUM_THREADS=";
  for (; *environment; ++environment) {
    const char *at = *environment;
    for (const char *letter = name; *letter && *at == *letter; ++letter)
      ++at;
    int threads = 0;
    for (bool found = at == *environment + sizeof name - 1; found && *at >= '0' && *at <= '9' && threads < 1000; ++at)
      threads = 10 * threads + *at - '0';
    if (threads > 0)
      return threads;
  }
  unsigned long mask[128] = {};
  long bytes = syscall(SYS_sched_getaffinity, 0, sizeof mask, mask);
  int processors = 0;
  for (long i = 0; i < bytes / static_cast<long>(sizeof mask[0]); ++i)
    processors += __builtin_popcountl(mask[i]);
  return processors > 0 ? processors : 1;
}

__attribute__((no_sanitize("address", "undefined", "thread"))) void checkBeforeLoading(int, char **,
                                                                                       char **environment) {
  loadedFor = threadsOf(environment);
  if (hasMemoryFor(loadedFor))
    return;
  static const char text[] =
      "error: too little memory may be reserved for OpenBLAS, which takes 128 MiB of addresses for "
      "each thread: raise the limit (ulimit -v) or set OMP_NUM_THREADS to a smaller number\n";
  syscall(SYS_write, 2, text, sizeof text - 1);
  syscall(SYS_exit_group, 1);
}

/// Called before the libraries of the executable are initialized.
__attribute__((section(".preinit_array"), used)) void (*beforeLoading)(int, char **, char **) = checkBeforeLoading;
} // namespace

void divisi::runtime::prepareBlas(DivisiContext *context) {
  if (context->blasReady)
    return;
  int threads = context->threads, more = threads > loadedFor ? threads - loadedFor : 0;
  if (!hasMemoryFor(more + threads))
    throw std::runtime_error(
        concat("too little memory may be reserved for OpenBLAS, which takes 128 MiB of addresses for "
               "each of ",
               threads,
               " threads that calls it: raise the limit (ulimit -v) or lower "
               "--threads"));
  openblas_set_num_threads(threads);
  context->blasReady = true;
}
