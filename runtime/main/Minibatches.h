//===- Minibatches.h - what an asynchronous step works on -------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_MAIN_MINIBATCHES_H
#define DIVISI_RUNTIME_MAIN_MINIBATCHES_H

#include "runtime/core/Manifest.h"

#include <algorithm>
#include <deque>

namespace divisi::runtime {

/// The minibatches of an asynchronous pipeline on one rank, from one time that it is empty to the next: each step
/// brings one, and works on those that the rows of the table name.
class Minibatches {
public:
  struct Given {
    double learningRate = 0;
    uint32_t wants = 0;
  };
  /// `lag` is that of the rank's stage, `longest` that of all.
  Minibatches(int64_t lag, int64_t longest) : lag(lag), longest(longest) {}

  /// Before a step: it brings this one.
  void feed(Given minibatch) {
    given.push_back(minibatch);
    fed += 1;
    if (static_cast<int64_t>(given.size()) > longest + 1)
      given.pop_front();
  }
  /// A run of a row: the byte of the arena that is its slot, and how many updates are still to come before that of its
  /// minibatch.
  struct Run {
    Given minibatch;
    int64_t slot = 0, behind = 0;
  };
  /// The runs of a row in this step: none if it works on a minibatch that does not exist, several in the first step if
  /// it works on later ones.
  std::vector<Run> runs(const Row &row) const;
  /// After a step. Whether a minibatch is finished on this rank.
  bool endStep() {
    int64_t done = step++ - lag;
    return done >= 0 && done < fed;
  }
  /// Whether all ranks have finished all minibatches.
  bool isEmpty() const { return fed == 0 || step >= fed + longest; }
  /// Those that all ranks have finished.
  int64_t finishedByAll() const { return std::max<int64_t>(0, std::min(step - longest, fed)); }

private:
  const Given &at(int64_t minibatch) const;

  int64_t lag, longest, step = 0, fed = 0;
  std::deque<Given> given; ///< the newest
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_MAIN_MINIBATCHES_H
