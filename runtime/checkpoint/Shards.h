//===- Shards.h - the shards that each rank writes --------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CHECKPOINT_SHARDS_H
#define DIVISI_RUNTIME_CHECKPOINT_SHARDS_H

#include "runtime/core/Manifest.h"

namespace divisi::runtime {

/// The elements of state that one rank writes: a slice of the state as sharded on its lowest stage.
struct Shard {
  const State *state = nullptr;
  Slice slice;

  /// The shape without padding.
  Shape shape() const;
};

/// Whether `rank` is the first rank of the owner's stage that has its shard: its index is 0 along every axis that does
/// not shard the tensor.
bool isFirstOwner(const Manifest &manifest, const Tensor &owner, int64_t rank);

/// What `rank` writes of a checkpoint, in the state's order. Each element is written by exactly one rank.
std::vector<Shard> shardsOf(const Manifest &manifest, int64_t rank);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CHECKPOINT_SHARDS_H
