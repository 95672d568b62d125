//===- Spinning.cpp - how long threads of a program spin ------------------===//
// The threads of a step wait for each other at the end of each kernel and library call: they spin, and sleep after a
// while. By default libgomp's threads spin for milliseconds. When other programs use the same cores, a thread that
// spins takes the time that the thread that it waits for needs, and a step becomes ten times slower; threads that never
// spin are woken too often. libgomp reads the limit from GOMP_SPINCOUNT when it is initialized and has no function for
// it, so that a program executes itself once more, before its libraries are initialized, with this variable set.
#include "runtime/main/Spinning.h"
#include "runtime/core/BeforeLoading.h"

#include <ctime>
#include <elf.h>

using namespace divisi::runtime;

namespace {
constexpr long spinNanoseconds = 30000;

DIVISI_BEFORE_LOADING inline void pauseOnce() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

DIVISI_BEFORE_LOADING long now() {
  timespec time = {};
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000L + time.tv_nsec;
}

/// How many times a thread looks for the end of its waiting within spinNanoseconds. A pause takes between some and 140
/// cycles, by processor.
DIVISI_BEFORE_LOADING long spins() {
  constexpr int pauses = 200;
  long least = spinNanoseconds;
  for (int round = 0; round < 5; ++round) { // others may interrupt some
    long begin = now();
    for (int i = 0; i < pauses; ++i)
      pauseOnce();
    long passed = now() - begin;
    least = passed > 0 && passed < least ? passed : least;
  }
  return spinNanoseconds * pauses / least;
}

/// Whether the kernel has started this program itself, neither through a loader that was called with its name, nor with
/// more rights than the caller's.
DIVISI_BEFORE_LOADING bool startedAsUsual(char **end) {
  bool loader = false, secure = false;
  for (auto *entry = reinterpret_cast<Elf64_auxv_t *>(end + 1); entry->a_type != AT_NULL; ++entry) {
    loader |= entry->a_type == AT_BASE && entry->a_un.a_val != 0;
    secure |= entry->a_type == AT_SECURE && entry->a_un.a_val != 0;
  }
  return loader && !secure;
}
} // namespace

DIVISI_BEFORE_LOADING void divisi::runtime::limitSpinning(int, char **arguments, char **environment) {
  if (before::valueOf("GOMP_SPINCOUNT", environment) || before::valueOf("OMP_WAIT_POLICY", environment) ||
      before::threadsOf(environment) == 1)
    return;
  long count = 0;
  while (environment[count])
    ++count;
  char path[4096];
  long length = syscall(SYS_readlink, "/proc/self/exe", path, sizeof path - 1);
  if (length <= 0 || !startedAsUsual(environment + count))
    return;
  path[length] = 0;
  char setting[] = "GOMP_SPINCOUNT=00000000";
  long digit = sizeof setting - 1;
  for (long rest = spins(); rest > 0 && setting[digit - 1] != '='; rest /= 10)
    setting[--digit] = static_cast<char>('0' + rest % 10);
  auto **more = static_cast<char **>(__builtin_alloca(static_cast<size_t>(count + 2) * sizeof(char *)));
  for (long i = 0; i < count; ++i)
    more[i] = environment[i];
  more[count] = setting;
  more[count + 1] = nullptr;
  syscall(SYS_execve, path, arguments, more); // if it fails, threads spin as long as libgomp wants
}
