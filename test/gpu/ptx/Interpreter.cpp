#include "test/gpu/ptx/Interpreter.h"

#include "test/gpu/ptx/Machine.h"

#include <algorithm>
#include <atomic>
#include <thread>

using namespace divisi::test::ptx;

Module::Module(std::string_view given) : text(parse(given)) {}

const Program &Module::find(const std::string &kernel) {
  std::lock_guard lock(mutex);
  std::unique_ptr<Program> &program = programs[kernel];
  if (!program) {
    auto it = std::ranges::find(text.kernels, kernel, &Kernel::name);
    if (it == text.kernels.end())
      throw Error(0, "there is no such kernel");
    program = std::make_unique<Program>(decode(*it, text));
  }
  return *program;
}

std::unique_ptr<Global> Module::takeGlobal() {
  std::lock_guard lock(mutex);
  if (idle.empty())
    return std::make_unique<Global>();
  auto global = std::move(idle.back());
  idle.pop_back();
  return global;
}

std::string Module::launch(const std::string &kernel, unsigned blocks, unsigned threads,
                           std::span<const uint64_t> arguments, Memory memory) {
  constexpr unsigned blocksOfAThread = 8; // with fewer another thread of this processor is not worth it
  try {
    const Program &program = find(kernel);
    if (threads == 0 || threads > program.mostThreads || arguments.size() != program.parameters)
      throw Error(0, std::to_string(threads) + " threads, " + std::to_string(arguments.size()) + " arguments");
    for (const Variable &variable : text.globals)
      memory.add({(uint64_t)(uintptr_t)variable.contents.data(),
                  (uint64_t)(uintptr_t)variable.contents.data() + variable.bytes});
    const Launch launch{program, memory, arguments, blocks, threads};
    // Blocks begin in their order: of several that fail the first one is told.
    std::atomic<unsigned> next = 0;
    std::mutex failing;
    std::pair<unsigned, std::string> failed = {~0u, ""};
    auto work = [&](Global &global) {
      Machine machine(launch, global);
      for (unsigned block; (block = next++) < blocks;)
        if (std::string wrong = machine.run(block); !wrong.empty()) {
          std::lock_guard lock(failing);
          failed = std::min(failed, {block, wrong});
          next = blocks;
        }
    };
    std::unique_ptr<Global> first = takeGlobal(), second;
    if (blocks >= blocksOfAThread && std::thread::hardware_concurrency() > 1) {
      second = takeGlobal();
      std::jthread other(work, std::ref(*second));
      work(*first);
    } else {
      work(*first);
    }
    if (second && failed.second.empty())
      if (std::string wrong = first->compare(*second); !wrong.empty())
        failed.second = kernel + ": " + wrong;
    std::lock_guard lock(mutex);
    idle.push_back(std::move(first));
    if (second)
      idle.push_back(std::move(second));
    return failed.second;
  } catch (const Error &error) {
    return kernel + ": line " + std::to_string(error.line) + ": " + error.what();
  }
}
