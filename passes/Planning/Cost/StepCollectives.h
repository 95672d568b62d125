#pragma once
#include "passes/Planning/Cost/CostModel.h"
#include "passes/Planning/Groups.h"
#include "step/Prefetch.h"

namespace divisi::planning {

/// The collectives of a training step in program order, which of them start ahead of their use, and which are combined:
/// as `partition`, `prefetch-state` and `bucket-collectives` will make them.
class StepCollectives {
public:
  struct Entry {
    int version; // of the expansion
    dist::ReshardStep step;
    int64_t bytes;   // as dist::bytesOfStep counts them
    int operation;   // that made the value (-1: an argument)
    int64_t times;   // in a step: once for each microbatch, perhaps
    int bucket = -1; // -1: it runs alone
  };
  StepCollectives(const Problem &problem, const Groups &groups, const dist::Mesh &mesh, const Plan &plan,
                  const Expansion &expansion);

  /// The collectives that make a version from its source, one after the other.
  llvm::ArrayRef<Entry> of(int version) const {
    return llvm::ArrayRef(entries).slice(ranges[version].first, ranges[version].second);
  }
  struct Bucket {
    int64_t bytes = 0; // of all members
    int members = 0;
    int operation = -1; // that makes the value of the last one
  };
  const Bucket &bucket(int number) const { return buckets[number]; }
  /// A version that is gathered ahead of its use: it starts before this operation. In the order in which they start.
  struct Fetch {
    int start, version;
  };
  llvm::ArrayRef<Fetch> fetches() const { return ahead; }
  /// The operation before which a version for one user starts.
  int startOf(int version) const { return starts[version] >= 0 ? starts[version] : all.versions[version].user; }
  bool anyCombined() const { return !buckets.empty(); }
  /// Times that a step makes a version by communication: for each use in a microbatch, or when its value is there.
  int64_t repeatsOf(int version) const;

  std::vector<bool> needed; // by version: every step reads it, or what comes from it
  std::vector<llvm::SmallVector<int, 2>> onDemand,
      follows; // versions: by operation that alone uses them, unless they are fetched ahead; by their source

private:
  /// The steps of a reshard, as `partition` makes them.
  std::vector<dist::ReshardStep> stepsOf(int version) const;
  void findNeeded();
  void findCrossing();
  bool isFetched(int version) const;
  /// Whether a step of a version's reshard may be combined with others.
  bool mayCombine(int version, dist::ReshardStep::Kind kind) const;
  void findFetches();
  void combine();
  void addFollowing(int version, int operation);
  void add(int version, int operation);

  const Problem &problem;
  const Groups &groups;
  const dist::Mesh &mesh;
  const Plan &plan;
  const Expansion &all;
  std::vector<bool> crosses; // by version
  std::vector<Entry> entries;
  std::vector<std::pair<int, int>> ranges; // by version: the first entry, their number
  std::vector<Bucket> buckets;
  std::vector<Fetch> ahead;
  std::vector<bool> returned; // by version: it is a result of the step, and nothing else reads it
  std::vector<int> starts;    // by version: the operation before which it is fetched; -1: it is not
  std::vector<int> layers;    // by version: that in which it is fetched
  step::Buckets rule;
  std::vector<int> items;   // by version: that of the rule
  std::vector<int> itemsOf; // by entry
};

} // namespace divisi::planning
