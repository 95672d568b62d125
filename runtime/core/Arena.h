//===- Arena.h - all memory of a program ------------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CORE_ARENA_H
#define DIVISI_RUNTIME_CORE_ARENA_H

#include "runtime/core/Manifest.h"

namespace divisi::runtime {

/// The memory in which a program computes: initially zero, in huge pages if the system has them.
class Arena {
public:
  /// `twin`: of an accelerator's memory, of which little is used here. It takes only what is used, and nothing is
  /// reserved for the rest.
  static Result<Arena> create(uint64_t bytes, bool twin = false);
  Arena(Arena &&other) noexcept;
  Arena &operator=(Arena &&) = delete;
  ~Arena();

  char *data() const { return data_; }
  char *at(const Tensor &tensor) const { return data_ + tensor.offset; }
  double number(const Tensor &tensor) const { return readNumber(at(tensor), tensor.dtype); }

private:
  Arena() = default;
  void *mapping_ = nullptr;
  size_t mapped_ = 0;
  char *data_ = nullptr;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CORE_ARENA_H
