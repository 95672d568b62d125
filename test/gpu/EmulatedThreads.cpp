#include "test/gpu/EmulatedThreads.h"

#include <algorithm>
#include <bit>
#include <csetjmp>
#include <cstddef>
#include <memory>
#include <ucontext.h>
#include <vector>

namespace {

/// A thread of a block. It is reused for the next block: switching takes no system call.
struct Fiber {
  enum class State { ready, atWarp, atBarrier, done };
  State state = State::ready;
  int32_t value = 0; // that other lanes read
  bool begun = false;
  jmp_buf where;
  ucontext_t context; // to begin
  std::unique_ptr<char[]> stack = std::make_unique<char[]>(1 << 16);
};

/// Runs the blocks of a launch one after another.
class Scheduler {
public:
  using Kernel = void (*)(void *const *);
  using State = Fiber::State;

  void begin(Kernel theKernel, void *const *theBuffers, int64_t theThreads) {
    kernel = theKernel;
    buffers = theBuffers;
    count = (size_t)theThreads;
    while (fibers.size() < count)
      fibers.push_back(std::make_unique<Fiber>());
  }

  /// Returns false if some threads would wait forever; these are given up.
  bool run(int64_t number) {
    block = number;
    for (size_t i = 0; i < count; ++i)
      fibers[i]->state = State::ready;
    while (true) {
      bool moved = false, all = true;
      for (thread = 0; thread < (int64_t)count; ++thread)
        if (fibers[(size_t)thread]->state == State::ready) {
          moved = true;
          resume(*fibers[(size_t)thread]);
        }
      for (size_t i = 0; i < count; ++i)
        all &= fibers[i]->state == State::done;
      if (all)
        return true;
      if (!release() && !moved) {
        fibers.clear();
        return false;
      }
    }
  }

  int64_t block = 0, thread = 0; // the current ones
  /// The current thread waits for those of its warp, or of its block.
  void stop(State state) {
    Fiber &fiber = *fibers[(size_t)thread];
    fiber.state = state;
    if (_setjmp(fiber.where) == 0)
      _longjmp(own, 1);
  }
  int32_t &valueOf(int64_t which) { return fibers[(size_t)which]->value; }

private:
  static constexpr size_t warp = 32;

  void resume(Fiber &fiber) {
    if (_setjmp(own) != 0)
      return;
    if (fiber.begun)
      _longjmp(fiber.where, 1);
    fiber.begun = true;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = 1 << 16;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, &Scheduler::work, 0);
    setcontext(&fiber.context);
  }
  static void work();

  /// Resumes warps whose threads have all reached the same point, and likewise blocks. As on a GPU, threads that have
  /// ended do not take part.
  bool release() {
    bool any = releaseIf(0, count, State::atBarrier);
    for (size_t first = 0; first < count; first += warp)
      any |= releaseIf(first, std::min(first + warp, count), State::atWarp);
    return any;
  }
  bool releaseIf(size_t first, size_t last, State wanted) {
    bool some = false;
    for (size_t i = first; i < last; ++i) {
      some |= fibers[i]->state == wanted;
      if (fibers[i]->state != wanted && fibers[i]->state != State::done)
        return false;
    }
    for (size_t i = first; i < last; ++i)
      if (fibers[i]->state == wanted)
        fibers[i]->state = State::ready;
    return some;
  }

  Kernel kernel = nullptr;
  void *const *buffers = nullptr;
  size_t count = 0;
  std::vector<std::unique_ptr<Fiber>> fibers;
  jmp_buf own;
};
thread_local Scheduler scheduler;

void Scheduler::work() {
  while (true) {
    scheduler.kernel(scheduler.buffers);
    scheduler.stop(State::done);
  }
}

/// For a launch whose threads do not wait for each other.
thread_local int64_t aloneBlock = 0, aloneThread = 0;
thread_local bool alone = false;
} // namespace

int32_t emulated_thread() { return (int32_t)(alone ? aloneThread : scheduler.thread); }
int32_t emulated_block() { return (int32_t)(alone ? aloneBlock : scheduler.block); }
void emulated_barrier() { scheduler.stop(Fiber::State::atBarrier); }
void emulated_warp_sync(int32_t) { scheduler.stop(Fiber::State::atWarp); }

int32_t emulated_shuffle(int32_t, int32_t value, int32_t distance, int32_t) {
  int64_t me = scheduler.thread;
  scheduler.valueOf(me) = value;
  scheduler.stop(Fiber::State::atWarp);
  int32_t other = scheduler.valueOf(me ^ distance);
  scheduler.stop(Fiber::State::atWarp);
  return other;
}

float emulated_shuffle_float(int32_t mask, float value, int32_t distance, int32_t clamp) {
  return std::bit_cast<float>(emulated_shuffle(mask, std::bit_cast<int32_t>(value), distance, clamp));
}

float approximate_reciprocal(float x) { return 1 / x; }

bool emulated_launch(void (*kernel)(void *const *), void *const *buffers, int64_t blocks, int64_t threads,
                     bool together) {
  alone = !together;
  if (together)
    scheduler.begin(kernel, buffers, threads);
  for (int64_t block = 0; block < blocks; ++block) {
    if (together) {
      if (!scheduler.run(block))
        return false;
      continue;
    }
    aloneBlock = block;
    for (aloneThread = 0; aloneThread < threads; ++aloneThread)
      kernel(buffers);
  }
  return true;
}
