#pragma once
#include "dialects/Dist/Plan.h"
#include "passes/Planning/ModuleProblem.h"
#include "passes/Planning/NamePatterns.h"
#include "passes/Planning/PadClass.h"
#include "passes/Planning/Remat/Rematerialize.h"

namespace divisi::planning {

/// A hash of everything that a plan depends on: functions, their arguments and results with names and types, operations
/// with their operands, attributes and types; not identities, locations, shardings and stages.
std::string hashOfModel(mlir::ModuleOp module);

/// The model and the target for which a plan is valid.
struct PlanSubject {
  std::string model;  // hashOfModel before the module's preparation
  std::string target; // cpu or cuda
};

/// The names of all operations, by number of the operation: the function, and the operation's identity within it. In a
/// module without identities (one written by hand), its kind and a number among the operations of this kind.
std::vector<OpKey> keysOf(const ModuleProblem &problem);

/// A padding, named by a tensor of its class (see PadRequest): state or an input (its name is `of.node`, `of.function`
/// is empty) or, if the class has none, a result of an operation.
struct NamedPad {
  OpKey of;
  int64_t result = 0, dim, parts;
};
/// The changes to a module before it is planned, in this order.
struct Preparation {
  std::vector<NamedRemat> remats;
  std::vector<NamedPad> pads;
};
/// The name of a request's class: its first state or input, else its first result.
NamedPad nameOf(const ModuleProblem &problem, const PadRequest &request);
/// The request that a name stands for; null if there is no such tensor, or if it has no such dimension.
std::optional<PadRequest> requestOf(const ModuleProblem &problem, const NamedPad &pad);

/// Writes the plan at the head of the module: the shardings of states and inputs, and the operations' splits, as far as
/// they do not follow (Derivation); equal layers share lines.
void writePlan(mlir::ModuleOp module, const PlanSubject &subject, const ModuleProblem &problem, const Plan &plan,
               const dist::Mesh &mesh, const Preparation &preparation);

/// The error text of a decision that names an operation which does not exist.
std::string noOperation(llvm::ArrayRef<OpKey> keys, const OpKey &wanted);

/// Reads the plan for a prepared module's problem. Fails with an error at the first decision that is not possible.
mlir::FailureOr<Plan> readPlan(dist::PlanOp text, const ModuleProblem &problem, const dist::Mesh &mesh);

} // namespace divisi::planning
