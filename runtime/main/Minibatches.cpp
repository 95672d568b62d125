#include "runtime/main/Minibatches.h"

using namespace divisi::runtime;

std::vector<Minibatches::Run> Minibatches::runs(const Row &row) const {
  std::vector<Run> found;
  int64_t last = step + row.microbatch, first = step == 0 ? 0 : last;
  // Before a minibatch enters, a run only reserves its buffer slot. The last steps do not need this.
  bool exists = row.microbatch > 0 ? step < fed : last < fed;
  int64_t done = std::max<int64_t>(0, step - lag);
  for (int64_t i = std::max<int64_t>(first, 0); exists && i <= last; ++i)
    if (takes(row, i))
      found.push_back({at(std::min(i, fed - 1)), row.slot + i % row.slots * row.stride,
                       std::max<int64_t>(0, i - (done - done % replicas)), i, i % replicas});
  return found;
}

const Minibatches::Given &Minibatches::at(int64_t minibatch) const {
  return given[static_cast<size_t>(minibatch - (fed - static_cast<int64_t>(given.size())))];
}
