#pragma once
#include "dialects/Dist/Plan.h"
#include "passes/Planning/ModuleProblem.h"
#include "passes/Planning/PadClass.h"
#include "passes/Planning/Remat/Rematerialize.h"

namespace divisi::planning {

/// A hash of what a plan depends on: functions, their arguments and results with names and types, operations with their
/// operands, attributes and types; not identities, locations, shardings and stages.
std::string hashOfModel(mlir::ModuleOp module);

/// What a plan is made for. It holds for nothing else.
struct PlanSubject {
  std::string model;  // hashOfModel before the module is prepared
  std::string target; // cpu or cuda
};

/// How a plan file names an operation: by its identity in a function. In a module without identities (one written by
/// hand) by its kind and a number among those of its kind.
struct OpKey {
  std::string function, node;
  std::string text() const { return function + "\n" + node; }
};
/// By number of the operation.
std::vector<OpKey> keysOf(const ModuleProblem &problem);

/// A padding by a tensor in its class, see PadRequest: a state or an input (its name is `of.node`, `of.function` is
/// empty) or, if there is none, a result of an operation.
struct NamedPad {
  OpKey of;
  int64_t result = 0, dim, parts;
};
/// What is changed in a module before it is planned, in this order.
struct Preparation {
  std::vector<NamedRemat> remats;
  std::vector<NamedPad> pads;
};
/// The first state or input in the class that a request stands for, else the first result.
NamedPad nameOf(const ModuleProblem &problem, const PadRequest &request);
/// The tensor of that name; none if there is no such tensor, or it has no such dimension.
std::optional<PadRequest> requestOf(const ModuleProblem &problem, const NamedPad &pad);

/// Puts the plan at the head of the module: all places, and those splits that do not follow from them by propagation.
void writePlan(mlir::ModuleOp module, const PlanSubject &subject, const ModuleProblem &problem, const Plan &plan,
               const dist::Mesh &mesh, const Preparation &preparation);

/// What to tell of a decision that names an operation that is not there.
std::string noOperation(llvm::ArrayRef<OpKey> keys, const OpKey &wanted);

/// The plan that the text describes for the problem of a module that is prepared. Fails with an error at the decision
/// that cannot hold.
mlir::FailureOr<Plan> readPlan(dist::PlanOp text, const ModuleProblem &problem, const dist::Mesh &mesh);

} // namespace divisi::planning
