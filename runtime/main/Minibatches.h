//===- Minibatches.h - minibatches in flight --------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_MAIN_MINIBATCHES_H
#define DIVISI_RUNTIME_MAIN_MINIBATCHES_H

#include "runtime/core/Manifest.h"

#include <algorithm>
#include <deque>

namespace divisi::runtime {

/// The minibatches of an asynchronous pipeline on one rank, until the pipeline drains. Each step brings one minibatch
/// and works on those that the rows of the table select.
class Minibatches {
public:
  struct Given {
    double learningRate = 0;
    uint32_t wants = 0;
  };
  /// `lag` is that of the rank's stage, `longest` the largest of all stages. The rank is the replica `own` of `replicas`
  /// of its stage that take minibatches in turn.
  Minibatches(int64_t lag, int64_t longest, int64_t own = 0, int64_t replicas = 1)
      : lag(lag), longest(longest), own(own), replicas(replicas) {}

  /// Adds the minibatch of the next step.
  void feed(Given minibatch) {
    given.push_back(minibatch);
    fed += 1;
    if (static_cast<int64_t>(given.size()) > longest + 1)
      given.pop_front();
  }
  /// A run of a row: the offset of its buffer slot in the arena, the number of updates that precede its minibatch's own
  /// update, the minibatch's number, and its number in a round of the replicas.
  struct Run {
    Given minibatch;
    int64_t slot = 0, behind = 0, number = 0, turn = 0;
  };
  /// The runs of a row in this step: none if its minibatch does not exist, or if another replica takes it; several in
  /// the first step if the row is ahead of the newest minibatch. What all replicas run (the update) they run for the
  /// last minibatch of a round.
  std::vector<Run> runs(const Row &row) const;
  /// Ends a step. Returns whether this rank has finished a minibatch.
  bool endStep() {
    int64_t done = step++ - lag;
    return done >= 0 && done < fed;
  }
  /// Whether all ranks have finished all minibatches.
  bool isEmpty() const { return fed == 0 || step >= fed + longest; }
  /// The number of minibatches that all ranks have finished.
  int64_t finishedByAll() const { return std::max<int64_t>(0, std::min(step - longest, fed)); }

private:
  const Given &at(int64_t minibatch) const;

  bool takes(const Row &row, int64_t minibatch) const {
    if (row.replica >= 0)
      return minibatch % replicas == own;
    return minibatch % replicas == replicas - 1 || minibatch == fed - 1; // the last one as the pipeline drains
  }

  int64_t lag, longest, own, replicas, step = 0, fed = 0;
  std::deque<Given> given; ///< the newest ones
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_MAIN_MINIBATCHES_H
