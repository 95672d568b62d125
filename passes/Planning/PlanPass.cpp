#include "dialects/Dist/StageAxes.h"
#include "passes/Planning/ApplyPlan.h"
#include "passes/Planning/FollowPlan.h"
#include "passes/Planning/ModulePlanner.h"
#include "passes/Planning/NarrowPlan.h"
#include "passes/Planning/Passes.h"

#include "llvm/ADT/StringExtras.h"

#include <set>

using namespace mlir;
using namespace divisi;
using namespace divisi::planning;

llvm::Expected<dist::Mesh> planning::parseMesh(StringRef text) {
  dist::Mesh mesh;
  SmallVector<StringRef> entries;
  text.split(entries, ',');
  for (StringRef entry : entries) {
    auto [name, size] = entry.split('=');
    int64_t number;
    if (name.trim().empty() || size.trim().getAsInteger(10, number) || number < 1 || number > 4096)
      return llvm::createStringError("expected AXIS=SIZE,..., such as data=2,model=4, got '" + text.str() + "'");
    if (dist::StageAxes::isTurn(name.trim()))
      return llvm::createStringError("the axis '" + name.trim().str() +
                                     "' is for replicas that take microbatches in turn, as --round-robin asks for");
    if (mesh.find(name.trim()))
      return llvm::createStringError("the axis '" + name.trim().str() + "' is named twice");
    mesh.axes.push_back({name.trim().str(), number});
  }
  if (!isReasonable(mesh))
    return llvm::createStringError("a mesh has at most 6 axes and 4096 devices, got '" + text.str() + "'");
  return mesh;
}

namespace divisi::planning {
#define GEN_PASS_DEF_PLANPASS
#include "passes/Planning/Passes.h.inc"

namespace {
struct PlanPass : impl::PlanPassBase<PlanPass> {
  using PlanPassBase::PlanPassBase;

  void runOnOperation() final {
    subject = {model.empty() ? hashOfModel(getOperation()) : model, target};
    if (failed(file.empty() ? followStrategy() : followFile()))
      signalPassFailure();
  }

private:
  LogicalResult followStrategy() {
    auto grid = parseMesh(mesh);
    if (!grid)
      return fail("mesh: " + llvm::toString(grid.takeError()));
    StrategyOptions options;
    options.zero = zero;
    for (StringRef text : llvm::split(StringRef(pins), ';')) {
      if (text.empty())
        continue;
      auto pin = parsePin(text);
      if (!pin)
        return fail("pin: expected NAME=AXES,AXES,... such as fc1.weight=_,model, got '" + text.str() + "'");
      options.pins.push_back(*pin);
    }
    separateScalars(getOperation());
    Preparation preparation{rematerializeBest(getOperation(), remat), {}};
    auto prepared = prepareStrategy(getOperation(), *grid, options, target);
    if (!prepared)
      return report(prepared.takeError());
    if (nameOf(prepared->mesh) != nameOf(*grid))
      emitRemark(UnknownLoc::get(&getContext()))
          << "the mesh is " << nameOf(prepared->mesh) << " instead of " << nameOf(*grid)
          << ": heads stay whole over model, the other weights are sharded over inner, too";
    grid = prepared->mesh;
    auto problem = ModuleProblem::build(getOperation());
    if (failed(problem))
      return failure();
    auto plan = llvm::cantFail(planByStrategy(problem->problem, *grid, options)).plan;
    warnOfIdleAxes(*plan, *grid);
    preparation.pads = prepared->pads;
    std::set<std::string> pinned;
    for (const Pin &pin : options.pins)
      pinned.insert(pin.name);
    auto isPinned = [&](const Problem::Tensor &tensor) { return pinned.count(tensor.name) > 0; };
    if (std::string name = narrowedAway(*problem, *plan, *grid, isPinned); !name.empty())
      return fail("pin: '" + name + "' is on a stage that lacks an axis that it is to be split over");
    return apply(*problem, *plan, *grid, preparation);
  }

  LogicalResult followFile() {
    OwningOpRef<ModuleOp> text;
    dist::PlanOp plan = parsePlan(text, file, &getContext());
    if (!plan)
      return failure();
    if (failed(checkSubject(plan, subject)))
      return failure();
    if (dist::toMesh(plan.getMesh()).devices() == 1 && plan->hasAttr(dist::names::pipeline)) {
      OpBuilder::atBlockBegin(getOperation().getBody()).clone(*plan); // a stage is one device: nothing is sharded
      return success();
    }
    auto followed = followPlan(getOperation(), plan, subject);
    if (succeeded(followed))
      if (std::string name = narrowedAway(followed->problem, followed->plan, followed->mesh,
                                          [](const Problem::Tensor &tensor) { return tensor.named(); });
          !name.empty())
        return plan.emitError("'") << name << "' is split over an axis that its stage lacks ('stage_axes')";
    if (failed(followed) || failed(apply(followed->problem, followed->plan, followed->mesh, followed->preparation)))
      return failure();
    for (auto written : getOperation().getOps<dist::PlanOp>())
      written->setDiscardableAttrs(plan->getDiscardableAttrDictionary());
    return success();
  }

  /// The name of the first tensor with `isMeant` whose planned sharding uses an axis that its stage lacks; "" if there
  /// is none.
  std::string narrowedAway(const ModuleProblem &problem, const Plan &plan, const dist::Mesh &grid,
                           llvm::function_ref<bool(const Problem::Tensor &)> isMeant) {
    Plan narrowed = narrow(getOperation(), problem, grid, plan);
    for (auto [tensor, before, after] : llvm::zip(problem.problem.tensors, plan.tensors, narrowed.tensors))
      if (!(before == after) && isMeant(tensor))
        return tensor.name;
    return "";
  }

  /// Warns of mesh axes along which all devices compute the same.
  void warnOfIdleAxes(const Plan &plan, const dist::Mesh &grid) {
    for (auto [a, axis] : llvm::enumerate(grid.axes)) {
      auto splits = [a = a](const dist::FactorAxes &factors) {
        return llvm::any_of(factors, [&](const dist::Axes &axes) { return llvm::is_contained(axes, (int)a); });
      };
      if (axis.size > 1 && llvm::none_of(plan.ops, splits))
        emitWarning(UnknownLoc::get(&getContext())) << "the axis \"" << axis.name << "\" of size " << axis.size
                                                    << " splits nothing: its devices all compute the same (data splits "
                                                       "the batch, model the weights, others what is pinned)";
    }
  }

  LogicalResult apply(const ModuleProblem &problem, const Plan &plan, const dist::Mesh &grid,
                      const Preparation &preparation) {
    Plan narrowed = narrow(getOperation(), problem, grid, plan);
    writePlan(getOperation(), subject, problem, narrowed, grid, preparation);
    applyPlan(getOperation(), problem, narrowed, grid);
    return success();
  }

  LogicalResult report(llvm::Error error) {
    std::string message = llvm::toString(std::move(error));
    return message.empty() ? failure() : fail(message);
  }

  LogicalResult fail(const std::string &message) { return emitError(UnknownLoc::get(&getContext()), message); }

  PlanSubject subject;
};
} // namespace
} // namespace divisi::planning
