#include "runtime/devices/cpu/Blas.h"
#include "runtime/core/BeforeLoading.h"

#include <array>
#include <cblas.h>
#include <stdexcept>
#include <sys/mman.h>

using namespace divisi::runtime;

namespace {
// OpenBLAS allocates 128 MiB of address space for each thread when it is loaded, and for each thread that calls it; if
// it cannot, it retries forever. Both allocations are therefore tried here first.
constexpr size_t bufferBytes = (size_t(128) << 20) + 8192;
constexpr int mostBuffers = 256;
int loadedFor = 0; ///< threads

DIVISI_BEFORE_LOADING bool hasMemoryFor(int buffers) {
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

DIVISI_BEFORE_LOADING void checkBeforeLoading(int, char **, char **environment) {
  loadedFor = before::threadsOf(environment);
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
