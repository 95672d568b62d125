#include "passes/Planning/FollowPlan.h"

#include "passes/Planning/ApplyPadding.h"
#include "passes/Planning/ModulePlanner.h"
#include "passes/Planning/ParseDump.h"
#include "passes/Planning/Passes.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::planning;

dist::PlanOp planning::parsePlan(OwningOpRef<ModuleOp> &file, const std::string &path, MLIRContext *context) {
  file = parseDump(path, context);
  if (!file)
    return {};
  auto plans = file->getOps<dist::PlanOp>();
  if (!llvm::hasSingleElement(plans)) {
    emitError(UnknownLoc::get(context)) << "expected one dist.plan in '" << path << "'";
    return {};
  }
  dist::PlanOp plan = *plans.begin();
  if (dist::toMesh(plan.getMesh()).find(dist::stageAxis)) {
    plan.emitError(
        "a plan's mesh is that of one stage: the axis 'stage' belongs into the attribute 'pipeline', as stages = N");
    return {};
  }
  auto pipeline = plan->getAttrOfType<DictionaryAttr>(dist::names::pipeline);
  auto stages = pipeline ? pipeline.getAs<IntegerAttr>("stages") : IntegerAttr();
  if (auto remats = plan.getOps<dist::RematOp>(); stages && stages.getInt() > 1 && !remats.empty()) {
    (*remats.begin()).emitError("stages compute parts of their own again: 'pipeline' says how many, as remat = N");
    return {};
  }
  for (Operation &op : plan.getBody().front())
    if (!isa<dist::RematOp, dist::PadOp, dist::PlaceOp, dist::SplitOp>(op)) {
      op.emitError("is no decision of a plan: expected dist.remat, dist.pad, dist.place or dist.split");
      return {};
    }
  return plan;
}

static bool isNamed(const Problem &problem, StringRef name) {
  return !name.empty() && llvm::any_of(problem.tensors, [&](const auto &tensor) { return tensor.name == name; });
}

FailureOr<FollowedPlan> planning::followPlan(ModuleOp module, dist::PlanOp text, StringRef hash) {
  if (text.getModel() != hash)
    return text.emitError("the plan was made for another model, or with other flags: this one is ") << hash;
  separateScalars(module);
  FollowedPlan followed;
  followed.mesh = dist::toMesh(text.getMesh());
  if (!isReasonable(followed.mesh))
    return text.emitError("a mesh has at most 6 axes and 4096 devices");
  Preparation &preparation = followed.preparation;
  for (auto part : text.getOps<dist::RematOp>()) {
    std::string error;
    preparation.remats.push_back({part.getFirst().str(), part.getLast().str()});
    if (failed(rematerialize(module, preparation.remats.back(), error)))
      return part.emitError(error);
  }
  for (auto pad : text.getOps<dist::PadOp>()) {
    auto problem = ModuleProblem::build(module);
    if (failed(problem))
      return failure();
    const NamedPad &named =
        preparation.pads.emplace_back(pad.getName().str(), (int64_t)pad.getDim(), (int64_t)pad.getParts());
    auto request = requestOf(problem->problem, named);
    if (!request && !isNamed(problem->problem, named.name))
      return pad.emitError("there is no input or state '") << pad.getName() << "'";
    if (!request)
      return pad.emitError("'") << pad.getName() << "' has no dimension " << named.dim
                                << " that could grow to a multiple of " << named.parts;
    PadClass grown(problem->problem, *request);
    if (grown.size() == grown.paddedSize())
      preparation.pads.pop_back(); // it divides
    else
      applyPadding(module, *problem, grown);
  }
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
