#pragma once
#include "test/gpu/ptx/Interpreter.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

/// Kernels of a fake driver with DIVISI_FAKE_PTX: their PTX is interpreted. They may access what is allocated; if the
/// variable names a file, only their buffers: its first line is the bytes of the program's arena, others are offsets
/// there, and bytes.
class Interpreted {
public:
  using Allocations = std::map<uintptr_t, size_t>;

  static bool isWanted() { return std::getenv("DIVISI_FAKE_PTX") != nullptr; }
  /// The module of a text; null if it is not known, which has been said.
  static std::shared_ptr<Interpreted> load(const char *text) {
    try {
      return std::make_shared<Interpreted>(text);
    } catch (const divisi::test::ptx::Error &error) {
      std::fprintf(stderr, "PTX: line %d: %s\n", error.line, error.what());
      return nullptr;
    }
  }
  explicit Interpreted(const char *text) : module(text) {
    std::ifstream file(std::getenv("DIVISI_FAKE_PTX"));
    file >> arenaBytes;
    for (uint64_t offset, bytes; file >> offset >> bytes;)
      known[offset] = bytes;
  }

  /// Returns false if something is wrong, which has been said.
  bool launch(const std::string &kernel, unsigned blocks, unsigned threads, const std::vector<void *> &buffers,
              const Allocations &allocations) {
    std::vector<uint64_t> arguments;
    std::vector<divisi::test::ptx::Memory::Range> memory;
    for (void *buffer : buffers) {
      auto address = (uint64_t)(uintptr_t)buffer;
      arguments.push_back(address);
      auto [begin, size] = *std::prev(allocations.upper_bound(address));
      auto place = size == arenaBytes ? known.find(address - begin) : known.end();
      if (size == arenaBytes && place == known.end()) {
        std::fprintf(stderr, "PTX: %s: no value begins at offset %zu\n", kernel.c_str(), (size_t)(address - begin));
        return false;
      }
      if (place != known.end())
        memory.push_back({address, address + place->second});
      else
        memory.push_back({begin, begin + size});
    }
    std::string wrong =
        module.launch(kernel, blocks, threads, arguments, divisi::test::ptx::Memory(std::move(memory), alignment));
    if (!wrong.empty())
      std::fprintf(stderr, "PTX: %s\n", wrong.c_str());
    return wrong.empty();
  }

private:
  static constexpr uint64_t alignment = 64; ///< of buffers

  divisi::test::ptx::Module module;
  uint64_t arenaBytes = 0;
  std::map<uint64_t, uint64_t> known; ///< the largest value at each offset
};
