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

std::string Module::launch(const std::string &kernel, unsigned blocks, unsigned threads,
                           std::span<const uint64_t> arguments, Memory memory) {
  constexpr unsigned blocksOfAThread = 8; // fewer are not worth another thread of this processor
  try {
    const Program &program = find(kernel);
    if (threads == 0 || threads > program.mostThreads || arguments.size() != program.parameters)
      throw Error(0, std::to_string(threads) + " threads, " + std::to_string(arguments.size()) + " arguments");
    for (const Variable &variable : text.globals)
      memory.add({(uint64_t)(uintptr_t)variable.contents.data(), (uint64_t)(uintptr_t)variable.contents.data() + variable.bytes});
    const Launch launch{program, memory, arguments, blocks, threads};
    // Blocks begin in their order: of several that fail the first one is told.
    std::atomic<unsigned> next = 0;
    std::mutex failing;
    std::pair<unsigned, std::string> failed = {~0u, ""};
    auto work = [&] {
      Machine machine(launch);
      for (unsigned block; (block = next++) < blocks;)
        if (std::string wrong = machine.run(block); !wrong.empty()) {
          std::lock_guard lock(failing);
          failed = std::min(failed, {block, wrong});
          next = blocks;
        }
    };
    std::vector<std::jthread> others(std::min(std::thread::hardware_concurrency() - 1, blocks / blocksOfAThread));
    for (std::jthread &other : others)
      other = std::jthread(work);
    work();
    others.clear();
    return failed.second;
  } catch (const Error &error) {
    return kernel + ": line " + std::to_string(error.line) + ": " + error.what();
  }
}
