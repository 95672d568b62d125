#pragma once
#include "passes/Planning/Cost/CostModel.h"
#include "passes/Planning/Groups.h"

namespace divisi::planning {

/// One way to shard a group.
struct GroupStrategy {
  dist::FactorAxes factors; // by the group's factor
  dist::Axes passed;        // axes of sums that stay pending through the group
};

/// Every assignment of mesh axes to factors that all members of a group allow; the replicated one comes first.
std::vector<GroupStrategy> strategiesOf(const Problem &problem, const dist::Mesh &mesh, const Group &group);

/// The axes of a member's factors under a strategy of its group.
dist::FactorAxes memberFactors(const Group &group, size_t member, const GroupStrategy &strategy);

/// Every sharding of a tensor on the mesh without pending sums; the replicated one comes first.
std::vector<dist::Sharding> shardingsOf(const Problem::Tensor &tensor, const dist::Mesh &mesh);

} // namespace divisi::planning
