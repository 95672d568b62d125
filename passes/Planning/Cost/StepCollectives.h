#pragma once
#include "passes/Planning/Cost/CostModel.h"
#include "passes/Planning/Groups.h"
#include "step/Buckets.h"

namespace divisi::planning {

/// The collectives of a training step in program order, and which of them are combined: as `partition` and
/// `bucket-gradients` will make them.
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
  bool anyCombined() const { return !buckets.empty(); }
  /// Times that a step makes a version by communication: for each use in a microbatch, or when its value is there.
  int64_t repeatsOf(int version) const;

  std::vector<bool> needed; // by version: every step reads it, or what comes from it
  std::vector<llvm::SmallVector<int, 2>> onDemand,
      follows; // versions: by operation that alone uses them; by their source

private:
  void findNeeded();
  void findCrossing();
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
  step::Buckets rule;
  std::vector<int> items;   // by version: that of the rule
  std::vector<int> itemsOf; // by entry
};

} // namespace divisi::planning
