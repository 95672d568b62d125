#pragma once
#include "passes/Planning/PlanText.h"

namespace divisi::planning {

/// What a plan's text decides for a module.
struct FollowedPlan {
  ModuleProblem problem;
  Plan plan;
  dist::Mesh mesh;
  Preparation preparation;
};

/// The one plan of a file; null with an error at what is wrong with it. It belongs to `file`, the module that it was
/// parsed to.
dist::PlanOp parsePlan(mlir::OwningOpRef<mlir::ModuleOp> &file, const std::string &path, mlir::MLIRContext *context);

/// Fails with an error at the plan if it was made for something else. (The target comes first: another one is another
/// model, too.)
mlir::LogicalResult checkSubject(dist::PlanOp text, const PlanSubject &subject);

/// Prepares the module as the plan says and reads its decisions. Fails with an error at the decision that cannot hold.
mlir::FailureOr<FollowedPlan> followPlan(mlir::ModuleOp module, dist::PlanOp text, const PlanSubject &subject);

} // namespace divisi::planning
