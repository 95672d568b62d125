#pragma once
#include "step/Buckets.h"

#include <set>

namespace divisi::step {

/// All shards of a state, gathered for one use.
struct Fetch {
  int64_t state = 0; // a number for each
  int64_t user = 0;  // the position of the operation that uses it
  int64_t bytes = 0; // of the result
};

/// The one rule by which shards of state are gathered ahead of their use (ZeRO-3). Gathers, in the order of their
/// users, make up layers: a layer has no state twice, and is complete when it has the bytes of a bucket, or a sixteenth
/// of all that a task gathers. It starts before the first use of the layer before it, so that computation with this one
/// has in memory the next one beside it, and no more.
class Prefetch {
public:
  /// `bucket`: the bytes from which on a layer is complete in any case.
  explicit Prefetch(int64_t bucket = bucketBytes) : bucket(bucket), limit(bucket) {}

  /// Begins a task that gathers `all` bytes: its first layer starts before its own first use.
  void begin(int64_t all);

  /// Adds the next gather. Returns its layer.
  int add(const Fetch &fetch);
  /// The position before which a layer starts.
  int64_t startOf(int layer) const { return layers[layer].start; }

private:
  struct Layer {
    int64_t start, firstUse;
  };
  const int64_t bucket;
  int64_t limit; // in this task
  std::vector<Layer> layers;
  int current = -1;         // the last layer of this task; -1: there is none
  int64_t bytes = 0;        // of the current layer
  std::set<int64_t> states; // of the current layer
};

} // namespace divisi::step
