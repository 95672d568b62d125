#include "test/gpu/EmulatedThreads.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <memory>
#include <ucontext.h>
#include <vector>

namespace {

/// The threads of one block, as fibers.
class Block {
public:
  using Kernel = void (*)(void *const *);

  Block(Kernel kernel, void *const *buffers, int64_t number, int64_t threads)
      : number(number), kernel(kernel), buffers(buffers), fibers((size_t)threads) {}

  bool run() {
    running = this;
    for (size_t i = 0; i < fibers.size(); ++i)
      prepare(i);
    while (true) {
      bool moved = false, all = true;
      for (thread = 0; thread < (int64_t)fibers.size(); ++thread) {
        if (fibers[thread].state != State::ready)
          continue;
        moved = true;
        swapcontext(&scheduler, &fibers[thread].context);
      }
      for (const Fiber &fiber : fibers)
        all &= fiber.state == State::done;
      if (all)
        return true;
      if (!release() && !moved)
        return false;
    }
  }

  static Block &current() { return *running; }
  int64_t number, thread = 0; // of the block, and of the thread that runs

  enum class State { ready, atWarp, atBarrier, done };
  /// The running thread waits for those of its warp, or of its block.
  void stop(State state) {
    size_t me = (size_t)thread;
    fibers[me].state = state;
    swapcontext(&fibers[me].context, &scheduler);
  }
  int32_t &valueOf(int64_t which) { return fibers[(size_t)which].value; }

private:
  static constexpr size_t stackBytes = 1 << 16, warp = 32;
  struct Fiber {
    ucontext_t context;
    State state = State::ready;
    int32_t value = 0;
  };

  void prepare(size_t i) {
    if (stacks.size() <= i)
      stacks.push_back(std::make_unique<char[]>(stackBytes));
    ucontext_t &context = fibers[i].context;
    getcontext(&context);
    context.uc_stack.ss_sp = stacks[i].get();
    context.uc_stack.ss_size = stackBytes;
    context.uc_link = &scheduler;
    makecontext(&context, &Block::enter, 0);
  }
  static void enter() {
    Block &block = *running;
    block.kernel(block.buffers);
    block.fibers[block.thread].state = State::done;
  }
  /// Warps whose threads have all come to the same place go on, and so does a block. As on a GPU, threads that have
  /// ended do not take part.
  bool release() {
    bool any = releaseIf(0, fibers.size(), State::atBarrier);
    for (size_t first = 0; first < fibers.size(); first += warp)
      any |= releaseIf(first, std::min(first + warp, fibers.size()), State::atWarp);
    return any;
  }
  bool releaseIf(size_t first, size_t last, State wanted) {
    bool some = false;
    for (size_t i = first; i < last; ++i) {
      some |= fibers[i].state == wanted;
      if (fibers[i].state != wanted && fibers[i].state != State::done)
        return false;
    }
    for (size_t i = first; i < last; ++i)
      if (fibers[i].state == wanted)
        fibers[i].state = State::ready;
    return some;
  }

  static thread_local Block *running;
  static thread_local std::vector<std::unique_ptr<char[]>> stacks; // blocks run one after the other
  Kernel kernel;
  void *const *buffers;
  std::vector<Fiber> fibers;
  ucontext_t scheduler;
};
thread_local Block *Block::running = nullptr;
thread_local std::vector<std::unique_ptr<char[]>> Block::stacks;

/// Of a launch whose threads do not wait for each other.
thread_local int64_t aloneBlock = 0, aloneThread = 0;
thread_local bool alone = false;
} // namespace

int32_t emulated_thread() { return (int32_t)(alone ? aloneThread : Block::current().thread); }
int32_t emulated_block() { return (int32_t)(alone ? aloneBlock : Block::current().number); }
void emulated_barrier() { Block::current().stop(Block::State::atBarrier); }
void emulated_warp_sync(int32_t) { Block::current().stop(Block::State::atWarp); }

int32_t emulated_shuffle(int32_t, int32_t value, int32_t distance, int32_t) {
  Block &block = Block::current();
  int64_t me = block.thread;
  block.valueOf(me) = value;
  block.stop(Block::State::atWarp);
  int32_t other = block.valueOf(me ^ distance);
  block.stop(Block::State::atWarp);
  return other;
}

float emulated_shuffle_float(int32_t mask, float value, int32_t distance, int32_t clamp) {
  return std::bit_cast<float>(emulated_shuffle(mask, std::bit_cast<int32_t>(value), distance, clamp));
}

bool emulated_launch(void (*kernel)(void *const *), void *const *buffers, int64_t blocks, int64_t threads,
                     bool together) {
  alone = !together;
  for (int64_t block = 0; block < blocks; ++block) {
    if (together) {
      if (!Block(kernel, buffers, block, threads).run())
        return false;
      continue;
    }
    aloneBlock = block;
    for (aloneThread = 0; aloneThread < threads; ++aloneThread)
      kernel(buffers);
  }
  return true;
}
