//===- MessagePool.h - memory for messages that come early ------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DEVICES_CUDA_MESSAGEPOOL_H
#define DIVISI_RUNTIME_DEVICES_CUDA_MESSAGEPOOL_H

#include "runtime/devices/cuda/Memory.h"

#include <algorithm>
#include <list>
#include <map>

namespace divisi::runtime::cuda {

/// Pieces of a GPU's memory, all of which are used on one stream.
class MessagePool {
public:
  /// Allocates memory for pieces of this many bytes together.
  void reserve(const Driver &driver, size_t bytes) {
    if (bytes > 0)
      blocks.emplace_back(driver, bytes);
  }
  /// A piece of at least `bytes` bytes; allocates if there is none, which may wait for all work of the GPU.
  char *take(const Driver &driver, size_t bytes) {
    bytes = roundUp(std::max<size_t>(bytes, 1));
    for (Block &block : blocks)
      for (auto [at, size] : block.free)
        if (size >= bytes)
          return block.take(at, bytes);
    return blocks.emplace_back(driver, bytes).take(0, bytes);
  }
  void give(char *piece) {
    for (Block &block : blocks)
      if (auto it = block.used.find(static_cast<size_t>(piece - block.memory.data())); it != block.used.end())
        return block.give(it);
  }
  static size_t roundUp(size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

private:
  static constexpr size_t alignment = 256;
  struct Block {
    Block(const Driver &driver, size_t bytes) : memory(driver, bytes, "allocate memory for messages"), free{{0, bytes}} {}
    char *take(size_t at, size_t bytes) {
      size_t size = free.at(at);
      free.erase(at);
      if (size > bytes)
        free[at + bytes] = size - bytes;
      used[at] = bytes;
      return memory.data() + at;
    }
    /// Merges the piece with free ones beside it.
    void give(std::map<size_t, size_t>::iterator piece) {
      auto it = free.insert(*piece).first;
      used.erase(piece);
      if (auto next = std::next(it); next != free.end() && it->first + it->second == next->first) {
        it->second += next->second;
        free.erase(next);
      }
      if (it != free.begin())
        if (auto before = std::prev(it); before->first + before->second == it->first) {
          before->second += it->second;
          free.erase(it);
        }
    }
    Memory memory;
    std::map<size_t, size_t> free, used; ///< sizes by place
  };
  std::list<Block> blocks;
};

} // namespace divisi::runtime::cuda

#endif // DIVISI_RUNTIME_DEVICES_CUDA_MESSAGEPOOL_H
