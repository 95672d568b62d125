//===- Shards.h - which rank writes what of the state -----------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CHECKPOINT_SHARDS_H
#define DIVISI_RUNTIME_CHECKPOINT_SHARDS_H

#include "runtime/core/Manifest.h"

namespace divisi::runtime {

/// The block of a state's elements that one rank writes: `slice` of the state as the lowest stage has it.
struct Shard {
  const State *state = nullptr;
  Slice slice;

  /// Its shape, without what lies beyond the whole.
  Shape shape() const;
};

/// Whether `rank` is the first of the owner's stage that has its piece: its index is 0 along every axis that does not
/// split the tensor.
bool isFirstOwner(const Manifest &manifest, const Tensor &owner, int64_t rank);

/// What `rank` writes of a checkpoint, in the order of the state. Each element is written by one rank.
std::vector<Shard> shardsOf(const Manifest &manifest, int64_t rank);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CHECKPOINT_SHARDS_H
