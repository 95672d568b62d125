//===- GlobalState.h - state sharded over ranks -----------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CHECKPOINT_GLOBALSTATE_H
#define DIVISI_RUNTIME_CHECKPOINT_GLOBALSTATE_H

#include "runtime/core/Arena.h"

#include <functional>

namespace divisi::runtime {

class Communicator;

/// Selects state.
using StateFilter = std::function<bool(const State &)>;

/// Gathers whole tensors, one at a time, on rank 0, which writes files. All ranks make the same calls in the same
/// order. Without a communicator there is only one rank.
class GlobalState {
public:
  /// `averaged`: parameters have the contents of their moving averages.
  GlobalState(const Manifest &manifest, const Arena &arena, Communicator *ranks = nullptr, bool averaged = false)
      : manifest_(manifest), arena(arena), ranks(ranks), averaged(averaged) {}

  const Manifest &manifest() const { return manifest_; }
  /// Whether this rank writes files.
  bool writes() const;
  /// The contents of the whole tensor on the rank that writes, valid until the next call; null on other ranks. Elements
  /// that several ranks have come from the first of them, of the lowest stage.
  Result<const char *> whole(const State &state);
  /// The failure of any rank, on all ranks.
  Status agree(const Status &mine) const;

private:
  const Manifest &manifest_;
  const Arena &arena;
  Communicator *ranks;
  bool averaged;
  std::vector<char> tensor, piece;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CHECKPOINT_GLOBALSTATE_H
