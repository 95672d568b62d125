#pragma once
#include "passes/Planning/Cost/CostModel.h"
#include "passes/Planning/Search/Groups.h"

namespace divisi::planning {

/// One way to split a group.
struct GroupStrategy {
  dist::FactorAxes factors; // by the group's factor
  dist::Axes passed;        // sums that stay pending through it
};

/// Every assignment of mesh axes to factors that all members of a group allow, the unsplit one first.
std::vector<GroupStrategy> strategiesOf(const Problem &problem, const dist::Mesh &mesh, const Group &group);

/// What a member splits under a strategy of its group.
dist::FactorAxes memberFactors(const Group &group, size_t member, const GroupStrategy &strategy);

/// Every way to lay a tensor on the mesh without anything pending, the replicated one first.
std::vector<dist::Sharding> shardingsOf(const Problem::Tensor &tensor, const dist::Mesh &mesh);

} // namespace divisi::planning
