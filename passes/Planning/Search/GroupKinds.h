#pragma once
#include "passes/Planning/FuseProblem.h"
#include "passes/Planning/Groups.h"

namespace divisi::planning {

/// What the search spaces of all meshes have in common.
struct GroupKinds {
  struct Facts {
    bool whole = false;    // read by the runtime, whole
    bool shared = false;   // read by several groups
    bool persists = false; // from the forward to the backward pass, or until the update
  };
  std::vector<Facts> facts; // by tensor
  std::vector<int> kindOf;  // by group: those of a kind have the same operations, thus the same strategies and costs
  int count = 0;            // of the kinds

  GroupKinds(const Problem &problem, const Groups &groups, const FusedProblem &fused);
};

} // namespace divisi::planning
