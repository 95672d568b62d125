#include "passes/Planning/FollowPlan.h"

#include "dialects/Dist/StageAxes.h"
#include "passes/Planning/ApplyPadding.h"
#include "passes/Planning/ModulePlanner.h"
#include "passes/Planning/Passes.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::planning;

/// The padding that an operation of a plan asks for; none if it is another decision.
static std::optional<NamedPad> padOf(Operation &op) {
  if (auto pad = dyn_cast<dist::PadOp>(op))
    return NamedPad{{"", pad.getName().str()}, 0, (int64_t)pad.getDim(), (int64_t)pad.getParts()};
  if (auto pad = dyn_cast<dist::PadResultOp>(op))
    return NamedPad{{pad.getFunction().str(), pad.getNode().str()},
                    (int64_t)pad.getNumber(),
                    (int64_t)pad.getDim(),
                    (int64_t)pad.getParts()};
  return std::nullopt;
}

/// Applies the padding of one decision, and adds it to `pads` unless the size divides already. Fails with an error at
/// the decision.
static LogicalResult followPad(ModuleOp module, Operation &decision, const NamedPad &pad, std::vector<NamedPad> &pads) {
  auto problem = ModuleProblem::build(module);
  if (failed(problem))
    return failure();
  auto request = requestOf(*problem, pad);
  NamedPad first = pad;
  first.dim = 0, first.parts = 1;
  if (!request && !requestOf(*problem, first) && pad.of.function.empty())
    return decision.emitError("there is no input or state '") << pad.of.node << "'";
  if (auto keys = keysOf(*problem);
      !pad.of.function.empty() && llvm::none_of(keys, [&](auto &key) { return key.text() == pad.of.text(); }))
    return decision.emitError(noOperation(keys, pad.of));
  if (!request)
    return decision.emitError("'") << pad.of.node << "' has no dimension " << pad.dim
                                   << " that could grow to a multiple of " << pad.parts;
  PadClass grown(problem->problem, *request);
  if (grown.size() == grown.paddedSize())
    return success();
  applyPadding(module, *problem, grown);
  pads.push_back(pad);
  return success();
}

LogicalResult planning::checkSubject(dist::PlanOp text, const PlanSubject &subject) {
  if (text.getTarget() != subject.target)
    return text.emitError("the plan was made for the target ")
           << text.getTarget() << ", this is for " << subject.target << ": make one with --target " << subject.target
           << " --emit plan";
  if (text.getModel() != subject.model)
    return text.emitError("the plan was made for another model, or with other flags of the training: it is for ")
           << text.getModel() << ", this one is " << subject.model << "; make one with --emit plan";
  return success();
}

FailureOr<FollowedPlan> planning::followPlan(ModuleOp module, dist::PlanOp text, const PlanSubject &subject) {
  if (failed(checkSubject(text, subject)))
    return failure();
  separateScalars(module);
  FollowedPlan followed;
  followed.mesh = dist::toMesh(text.getMesh());
  for (const dist::Mesh::Axis &axis : followed.mesh.axes)
    if (dist::StageAxes::isTurn(axis.name))
      return text.emitError("the axis '") << axis.name << "' is for replicas that take microbatches in turn: 'replicas' "
                                             "of 'pipeline' says how many each stage has";
  Preparation &preparation = followed.preparation;
  for (auto part : text.getOps<dist::RematOp>()) {
    preparation.remats.push_back({part.getFirst().str(), part.getLast().str()});
    if (llvm::Error error = rematerialize(module, preparation.remats.back()))
      return part.emitError(llvm::toString(std::move(error)));
  }
  for (Operation &decision : text.getBody().front())
    if (auto pad = padOf(decision); pad && failed(followPad(module, decision, *pad, preparation.pads)))
      return failure();
  auto problem = ModuleProblem::build(module);
  if (failed(problem))
    return failure();
  auto decided = readPlan(text, *problem, followed.mesh);
  if (failed(decided))
    return failure();
  followed.problem = std::move(*problem);
  followed.plan = std::move(*decided);
  return followed;
}
