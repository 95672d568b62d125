//===- Minibatches.h - minibatches in flight --------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_MAIN_MINIBATCHES_H
#define DIVISI_RUNTIME_MAIN_MINIBATCHES_H

#include "runtime/core/Manifest.h"

#include <algorithm>
#include <deque>

namespace divisi::runtime {

/// The minibatches of an asynchronous pipeline on one rank, until the pipeline drains. They come one after the other, and
/// with each the rank works on those that the rows of the table select.
class Minibatches {
public:
  struct Given {
    double learningRate = 0;
    uint32_t wants = 0;
  };
  /// `lag` is that of the rank's stage, `longest` the largest of all stages. The rank is the replica `own` of `replicas`
  /// of its stage that take minibatches in turn. A step brings `batch` minibatches, which are updated together.
  Minibatches(int64_t lag, int64_t longest, int64_t own = 0, int64_t replicas = 1, int64_t batch = 1)
      : lag(lag), longest(longest), own(own), replicas(replicas), batch(batch) {}

  /// Adds the minibatches of the next step.
  void feed(Given step) {
    given.push_back(step);
    fed += batch;
    if (static_cast<int64_t>(given.size()) > longest / batch + 2)
      given.pop_front();
  }
  /// A run of a row: the offset of its buffer slot in the arena, the number of updates that are still to come before its
  /// minibatch's own update, the minibatch's number, its number in its step, and in a round of the replicas.
  struct Run {
    Given minibatch;
    int64_t slot = 0, pending = 0, number = 0, microbatch = 0, turn = 0;
  };
  /// The runs of a row when the next minibatch has come: none if its minibatch does not exist, or if another replica
  /// takes it; several with the first minibatch if the row is ahead of it. Rows that run for the last of the minibatches
  /// that are updated together (a step's, a round of the replicas) all replicas run.
  std::vector<Run> runs(const Row &row) const;
  /// Tells that a run of a row has ended.
  void hasRun(const Row &row, const Run &run) {
    if (row.when == Row::When::last)
      updated = run.number + 1;
  }
  /// Goes on to the next minibatch. Returns whether this rank has finished a step.
  bool endMinibatch() {
    int64_t done = next++ - lag;
    return done >= 0 && done < fed && done % batch == batch - 1;
  }
  /// Whether all ranks have finished all minibatches.
  bool isEmpty() const { return fed == 0 || next >= fed + longest; }
  /// The number of steps that all ranks have finished.
  int64_t finishedByAll() const { return std::max<int64_t>(0, std::min(next - longest, fed)) / batch; }

private:
  const Given &at(int64_t minibatch) const;

  bool takes(const Row &row, int64_t minibatch) const {
    const int64_t place = minibatch % (replicas * batch);
    switch (row.when) {
    case Row::When::each:
      return minibatch % replicas == own;
    case Row::When::first:
      return place == 0;
    case Row::When::last:
      return place == replicas * batch - 1 || minibatch == fed - 1; // the last one as the pipeline drains
    }
    return false;
  }

  int64_t lag, longest, own, replicas, batch;
  int64_t next = 0, fed = 0; ///< numbers of minibatches
  int64_t updated = 0;       ///< minibatches before this one are in the weights
  std::deque<Given> given;   ///< of the newest steps
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_MAIN_MINIBATCHES_H
