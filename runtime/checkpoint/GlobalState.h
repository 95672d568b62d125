//===- GlobalState.h - state that lies on many ranks ------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CHECKPOINT_GLOBALSTATE_H
#define DIVISI_RUNTIME_CHECKPOINT_GLOBALSTATE_H

#include "runtime/core/Arena.h"

#include <functional>

namespace divisi::runtime {

class Communicator;

/// Which pieces of state a function is about.
using StateFilter = std::function<bool(const State &)>;

/// Whole tensors, one at a time, put together on rank 0, which writes files. All ranks make the same calls in the same
/// order. Without a communicator: the one rank that there is.
class GlobalState {
public:
  GlobalState(const Manifest &manifest, const Arena &arena, Communicator *ranks = nullptr)
      : manifest_(manifest), arena(arena), ranks(ranks) {}

  const Manifest &manifest() const { return manifest_; }
  /// Whether this rank writes.
  bool writes() const;
  /// The contents of the whole tensor on the rank that writes, valid until the next call; null on others. What several
  /// ranks have comes from the first of them, and from the lowest stage.
  Result<const char *> whole(const State &state);
  /// The failure of any rank, on all ranks.
  Status agree(const Status &mine) const;

private:
  const Manifest &manifest_;
  const Arena &arena;
  Communicator *ranks;
  std::vector<char> tensor, piece;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CHECKPOINT_GLOBALSTATE_H
