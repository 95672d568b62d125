#pragma once
#include "passes/Planning/Cost/CostModel.h"
#include "passes/Planning/Search/GroupKinds.h"
#include "passes/Planning/Search/PairwiseProblem.h"

#include <map>
#include <memory>
#include <optional>

namespace divisi::planning {

/// The choices: a split for every group of operations, a sharding for every argument, and for every value with several
/// readers the sharding in which they share it. Costs are the groups' work and the reshards between them, in
/// microseconds. Memory counts the states, the inputs, what is kept from the forward to the backward pass, and the
/// gradients. Several searches may share one space at a time.
class SearchSpace {
public:
  /// `pins` are arguments (and values that other groups make) whose shardings are decided in every search, by tensor.
  /// `known`: a space with other pins, from which is taken what both have in common.
  SearchSpace(const Problem &problem, const Groups &groups, const FusedProblem &fused, const GroupKinds &kinds,
              const CostModel &costs, const std::map<int, dist::Sharding> &pins, const SearchSpace *known = nullptr);
  ~SearchSpace();

  /// The problem of a search that takes this share of the communication of gradients and of gathered parameters, which may overlap
  /// with the computation, to do so, and that lays arguments as `places` says (by tensor). Nothing if an argument cannot lie so.
  /// The capacity is for the caller to set.
  std::optional<PairwiseProblem> pairwise(double hidden, const std::map<int, dist::Sharding> &places) const;
  /// Microseconds of the communication that may overlap, under a choice.
  double hideable(const std::vector<int> &choice, const std::map<int, dist::Sharding> &places) const;
  /// Writes the decisions that a choice of that search stands for.
  void decide(const std::vector<int> &choice, const std::map<int, dist::Sharding> &places, Plan &plan) const;

private:
  class Builder;
  struct Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace divisi::planning
