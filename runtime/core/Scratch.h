//===- Scratch.h - memory that only grows -----------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CORE_SCRATCH_H
#define DIVISI_RUNTIME_CORE_SCRATCH_H

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

namespace divisi::runtime {

/// Working memory for one service call at a time. It reaches its final size in the first step.
class Scratch {
public:
  static constexpr size_t alignment = 64;
  static size_t roundUp(size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

  /// Returns at least `bytes` bytes, aligned; earlier contents and addresses are lost.
  char *reserve(size_t bytes) {
    if (bytes <= size_)
      return memory_.get();
    memory_.reset();
    size_ = 0;
    memory_.reset(static_cast<char *>(std::aligned_alloc(alignment, roundUp(bytes))));
    if (!memory_)
      throw std::bad_alloc();
    size_ = roundUp(bytes);
    return memory_.get();
  }
  size_t size() const { return size_; }

private:
  struct Free {
    void operator()(char *p) const { std::free(p); }
  };
  std::unique_ptr<char, Free> memory_;
  size_t size_ = 0;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CORE_SCRATCH_H
