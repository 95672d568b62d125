#pragma once
#include "passes/Planning/ParseDump.h"
#include "passes/Planning/PlanText.h"

namespace divisi::planning {

/// The decisions of a plan's text for a module.
struct FollowedPlan {
  ModuleProblem problem;
  Plan plan;
  dist::Mesh mesh;
  Preparation preparation;
};

/// Fails with an error at the plan if it was made for another target or model. The target is compared first, because
/// another target also changes the model.
mlir::LogicalResult checkSubject(dist::PlanOp text, const PlanSubject &subject);

/// Prepares the module as the plan says and reads its decisions. Fails with an error at the decision that cannot hold.
mlir::FailureOr<FollowedPlan> followPlan(mlir::ModuleOp module, dist::PlanOp text, const PlanSubject &subject);

} // namespace divisi::planning
