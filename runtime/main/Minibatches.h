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
  /// `lag` is that of the rank's stage, `longest` the largest of all stages.
  Minibatches(int64_t lag, int64_t longest) : lag(lag), longest(longest) {}

  /// Adds the minibatch of the next step.
  void feed(Given minibatch) {
    given.push_back(minibatch);
    fed += 1;
    if (static_cast<int64_t>(given.size()) > longest + 1)
      given.pop_front();
  }
  /// A run of a row: the offset of its buffer slot in the arena, and the number of updates that precede its minibatch's
  /// own update.
  struct Run {
    Given minibatch;
    int64_t slot = 0, behind = 0;
  };
  /// The runs of a row in this step: none if its minibatch does not exist; several in the first step if the row is
  /// ahead of the newest minibatch.
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

  int64_t lag, longest, step = 0, fed = 0;
  std::deque<Given> given; ///< the newest ones
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_MAIN_MINIBATCHES_H
