#include "runtime/main/Minibatches.h"

using namespace divisi::runtime;

std::vector<Minibatches::Run> Minibatches::runs(const Row &row) const {
  std::vector<Run> found;
  int64_t last = next + row.microbatch, first = next == 0 ? 0 : last;
  // Before a minibatch enters, a run only reserves its buffer slot. The last ones do not need this.
  bool exists = row.microbatch > 0 ? next < fed : last < fed;
  for (int64_t i = std::max<int64_t>(first, 0); exists && i <= last; ++i)
    if (takes(row, i))
      found.push_back({at(std::min(i, fed - 1)), row.slot + i % row.slots * row.stride,
                       std::max<int64_t>(0, i - updated) / batch, i, i % batch, i % replicas});
  return found;
}

const Minibatches::Given &Minibatches::at(int64_t minibatch) const {
  return given[static_cast<size_t>(minibatch / batch - fed / batch + static_cast<int64_t>(given.size()))];
}
