#pragma once
#include "dialects/Dist/Plan.h"
#include "passes/Planning/ModuleProblem.h"
#include "passes/Planning/PadClass.h"
#include "passes/Planning/Remat/Rematerialize.h"

namespace divisi::planning {

/// A hash of what a plan depends on: functions, names and types of states and inputs, operations with their locations.
/// Independent of values.
std::string hashOfModel(mlir::ModuleOp module);

/// A padding by the name of a state or an input in its class; see PadRequest.
struct NamedPad {
  std::string name;
  int64_t dim, parts;
};
/// What is changed in a module before it is planned, in this order.
struct Preparation {
  std::vector<NamedRemat> remats;
  std::vector<NamedPad> pads;
};
/// The first state or input in the class that a request stands for.
std::optional<NamedPad> nameOf(const Problem &problem, const PadRequest &request);
/// The tensor of that name.
std::optional<PadRequest> requestOf(const Problem &problem, const NamedPad &pad);

/// Puts the plan at the head of the module: all places, and those splits that do not follow from them by propagation.
void writePlan(mlir::ModuleOp module, const std::string &hash, const ModuleProblem &problem, const Plan &plan,
               const dist::Mesh &mesh, const Preparation &preparation);

/// The plan that the text describes for the problem of a module that is prepared. Fails with an error at the decision
/// that cannot hold.
mlir::FailureOr<Plan> readPlan(dist::PlanOp text, const ModuleProblem &problem, const dist::Mesh &mesh);

} // namespace divisi::planning
