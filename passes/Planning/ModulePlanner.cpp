#include "passes/Planning/ModulePlanner.h"

#include "passes/Planning/ApplyPadding.h"
#include "passes/Planning/ApplyPlan.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::planning;

void planning::separateScalars(ModuleOp module) {
  SmallVector<Operation *> shared;
  module.walk([&](Operation *op) {
    auto broadcast = dyn_cast<graph::BroadcastOp>(op);
    auto constant = dyn_cast<graph::ConstantOp>(op);
    if ((broadcast && graph::tensorType(broadcast.getX()).getNumElements() == 1) ||
        (constant && constant.getValue().isSplat()))
      shared.push_back(op);
  });
  for (Operation *op : shared) {
    SmallVector<OpOperand *> uses;
    for (OpOperand &use : op->getUses())
      uses.push_back(&use);
    for (size_t i = 1; i < uses.size(); ++i)
      uses[i]->set(OpBuilder(op).clone(*op)->getResult(0));
  }
}

FailureOr<std::vector<NamedPad>> planning::padForStrategy(ModuleOp module, const dist::Mesh &mesh,
                                                          const StrategyOptions &options, std::string &error) {
  std::vector<NamedPad> pads;
  for (;;) { // each turn pads one size: there are finitely many
    auto problem = ModuleProblem::build(module);
    if (failed(problem))
      return failure();
    std::optional<PadRequest> pad;
    if (planByStrategy(problem->problem, mesh, options, error, pad))
      return pads;
    if (!pad)
      return failure();
    if (auto named = nameOf(problem->problem, *pad))
      pads.push_back(*named);
    applyPadding(module, *problem, PadClass(problem->problem, *pad));
  }
}

FailureOr<std::vector<ModuleCandidate>> planning::planModule(ModuleOp module, const Cluster &cluster,
                                                             const PlannerOptions &options, std::string &error) {
  separateScalars(module);
  auto problem = ModuleProblem::build(module);
  if (failed(problem))
    return failure();
  std::vector<ModuleCandidate> result;
  auto planner = std::make_shared<Planner>(std::move(problem->problem), cluster);
  for (Candidate &candidate : planner->candidates(options, error))
    result.push_back({std::move(candidate), {}, planner});
  std::vector<dist::Mesh> meshes = options.meshes;
  if (!meshes.empty() && meshes[0].axes.size() == 1 && meshes[0].axes[0].name == "data") { // the strategy operator
    dist::Mesh &operators = meshes.emplace_back(meshes[0]);
    operators.axes[0].name = "model";
  }
  for (const dist::Mesh &mesh : meshes) {
    if (mesh.axes.size() > 1 && meshes.size() > 1 && planner->problem.ops.size() > mostThorough)
      continue;
    std::optional<PadRequest> pad;
    std::string ignored;
    if (planByStrategy(planner->problem, mesh, {options.pins}, ignored, pad) || !pad)
      continue;
    OwningOpRef<ModuleOp> copy = module.clone();
    auto pads = padForStrategy(*copy, mesh, {options.pins}, ignored);
    auto padded = ModuleProblem::build(*copy);
    if (failed(pads) || failed(padded))
      continue;
    PlannerOptions only = options;
    only.meshes = {mesh};
    only.alone = false;
    auto second = std::make_shared<Planner>(std::move(padded->problem), cluster);
    for (Candidate &candidate : second->candidates(only, ignored)) {
      candidate.name += " padded";
      result.push_back({std::move(candidate), *pads, second});
    }
  }
  if (result.empty())
    return failure();
  error.clear();
  llvm::stable_sort(result, isBetter);
  // The bound of the best search, by the whole problem.
  auto searched = llvm::find_if(result, [](const ModuleCandidate &candidate) { return candidate.searched; });
  if (options.thorough && searched != result.end() && searched->pads.empty()) {
    planner->certify(options.pins, *searched);
    llvm::stable_sort(result, isBetter);
  }
  result[0].planner->complete(result[0]);
  return result;
}

LogicalResult planning::applyCandidate(ModuleOp module, const ModuleCandidate &candidate, const std::string &hash) {
  if (candidate.mesh.devices() == 1)
    return success();
  for (const NamedPad &pad : candidate.pads) {
    auto problem = ModuleProblem::build(module);
    if (failed(problem))
      return failure();
    applyPadding(module, *problem, PadClass(problem->problem, *requestOf(problem->problem, pad)));
  }
  auto problem = ModuleProblem::build(module);
  if (failed(problem))
    return failure();
  writePlan(module, hash, *problem, candidate.plan, candidate.mesh, candidate.pads);
  applyPlan(module, *problem, candidate.plan, candidate.mesh);
  return success();
}

std::string planning::describeChoice(const std::vector<ModuleCandidate> &candidates) {
  const ModuleCandidate &best = candidates[0];
  auto milliseconds = [](const Candidate &candidate) {
    double seconds = candidate.measured > 0 ? candidate.measured : candidate.prediction.seconds;
    return llvm::formatv("{0:f2} ms", seconds * 1e3).str();
  };
  std::string text = "plan: " + best.name + ", " + milliseconds(best) + " a step expected";
  if (best.measured > 0)
    text += " by measured times";
  if (!best.fits)
    text +=
        llvm::formatv(", but it needs {0:f2} GB, more than a device has", best.prediction.memory.total() * 1e-9).str();
  for (const ModuleCandidate &other : candidates)
    if (other.fits && (best.mesh.devices() == 1) != (other.mesh.devices() == 1))
      return text + " (" + other.name + ": " + milliseconds(other) + ")";
  return text;
}
