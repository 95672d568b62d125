#include "passes/Pipelining/CheckSync.h"

#include "dialects/Dist/StageAxes.h"
#include "dialects/Dist/Sync.h"
#include "dialects/Dist/Tasks.h"
#include "dialects/Exec/Exec.h"
#include "dialects/Graph/Arguments.h"
#include "dialects/Graph/Graph.h"
#include "passes/Training/LossScaling.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::pipelining;
using dist::Sync;

static constexpr llvm::StringLiteral again = ": write the dump again";

bool pipelining::isOverReplicas(Operation *op) {
  auto call = dyn_cast<exec::CallOp>(op);
  auto axes = call ? call.getAxes() : isa<dist::DistDialect>(op->getDialect()) ? op->getAttrOfType<ArrayAttr>("axes") : ArrayAttr();
  return axes && llvm::any_of(axes.getAsRange<StringAttr>(), [](StringAttr axis) { return axis.getValue() == dist::replicaAxis; });
}

Combination pipelining::combinationOf(BlockArgument argument) {
  Combination result;
  bool isRead = false;
  for (Operation *user : argument.getUsers()) {
    if (isa<exec::AwaitOp>(user))
      continue;
    auto call = dyn_cast<exec::CallOp>(user);
    auto reduce = dyn_cast<dist::AllReduceOp>(call ? call.getPayload() : user);
    StringRef now = reduce && isOverReplicas(user) ? stringifyReductionKind(reduce.getKind()) : "copy";
    if (isRead && result.how != now)
      result.odd = user;
    result.how = now;
    isRead = true;
  }
  return result;
}

namespace {
/// The checks of one module.
class Check {
public:
  Check(ModuleOp module, const Sync &sync) : module(module), sync(sync), mode(Sync::nameOf(sync.mode)) {}

  LogicalResult run() {
    for (auto function : module.getOps<func::FuncOp>())
      if (dist::functionOf(function.getName()) == "train")
        steps.push_back(function);
    if (failed(checkMesh()) || failed(checkPushed()))
      return failure();
    const bool isPlanned = !steps.empty() && steps.front()->hasAttr(dist::names::mesh); // what is exchanged is not written yet
    return isPlanned ? success() : checkSums();
  }

private:
  /// Replicas that go apart, and dedicated servers, do not go with everything.
  LogicalResult checkMesh() {
    const bool isSpecial = sync.isApart() || sync.servers > 0;
    for (func::FuncOp step : steps) {
      auto fail = [&](const Twine &what) { return step.emitError("'dist.sync' says --sync ") << mode << ", " << what; };
      Attribute attr = step->getAttr(dist::names::mesh);
      auto written = dyn_cast_or_null<dist::MeshAttr>(attr ? attr : step->getAttr(dist::names::partitioned));
      dist::Mesh mesh = written ? dist::toMesh(written) : dist::Mesh();
      if (sync.mode == Sync::Mode::allReduce)
        continue;
      auto data = mesh.find(dist::replicaAxis);
      if (!data || mesh.axes[*data].size < 2)
        return fail("but the mesh has no axis 'data' of at least 2 replicas");
      if (isSpecial && !dist::StageAxes::of(step).empty())
        return fail("for which all stages need the same replicas");
      for (BlockArgument argument : step.getArguments())
        if (isSpecial && graph::roleOf(argument) == training::scalingRole)
          return fail("but with fp16 replicas would skip different steps: take --precision bf16");
    }
    for (auto schedule : module.getOps<dist::ScheduleOp>())
      if (isSpecial && schedule.isAsynchronous())
        return schedule.emitError("'dist.sync' says --sync ") << mode << ", which is not for steps that overlap";
    return success();
  }

  /// Workers send what the updates of dedicated servers read, and nothing else.
  LogicalResult checkPushed() {
    std::map<int64_t, int64_t> updates; // by stage
    bool pushes = false, combines = false;
    for (auto task : module.getOps<func::FuncOp>()) {
      const bool isUpdate = sync.servers > 0 && dist::functionOf(task.getName()) == "train" &&
                            dist::kindOf(task.getName()) == dist::TaskKind::finish;
      updates[dist::stageOf(task)] += isUpdate;
      for (BlockArgument argument : task.getArguments()) {
        const unsigned i = argument.getArgNumber();
        Attribute pushed = task.getArgAttr(i, dist::names::pushed);
        if (!isUpdate || task.getArgAttr(i, graph::names::state) || task.getArgAttr(i, graph::names::scalar)) {
          if (pushed)
            return task.emitError("argument ") << i << " has 'dist.pushed', but workers send only what an update of dedicated servers reads" << again;
          continue;
        }
        const Combination wanted = combinationOf(argument);
        if (task->hasAttr(dist::names::partitioned) && (wanted.odd || pushed != StringAttr::get(task.getContext(), wanted.how)))
          return task.emitError("argument ") << i << " needs dist.pushed = \"" << wanted.how << "\", by what the update does with it" << again;
        pushes = true;
        combines |= wanted.how != "copy";
      }
    }
    const bool isPlanned = llvm::none_of(steps, [](func::FuncOp step) { return step->hasAttr(dist::names::partitioned); });
    if (sync.servers == 0 || isPlanned)
      return success();
    if (pushes && combines != sync.isApart() && llvm::all_of(updates, [&](const auto &ofStage) { return ofStage.second == sync.servers; }))
      return success();
    return module.emitError("the tasks are not those of --sync ") << mode << " with " << sync.servers << " servers, as 'dist.sync' says" << again;
  }

  /// Gradients are added up over replicas, unless these go apart.
  LogicalResult checkSums() {
    bool isSplit = false, isNarrow = false;
    Operation *sum = nullptr;
    for (func::FuncOp step : steps) {
      auto mesh = step->getAttrOfType<dist::MeshAttr>(dist::names::partitioned);
      auto data = mesh ? dist::toMesh(mesh).find(dist::replicaAxis) : std::nullopt;
      isNarrow |= !dist::StageAxes::of(step).empty();
      for (unsigned i = 0; data && i < step.getNumArguments(); ++i)
        if (auto global = step.getArgAttrOfType<TypeAttr>(i, dist::names::global); global && step.getArgAttr(i, graph::names::input))
          if (auto type = dyn_cast<RankedTensorType>(global.getValue()))
            isSplit |= dist::toSharding(type, dist::toMesh(mesh)).splits(*data);
      for (Operation &op : step.getBody().front())
        if (!sum && isOverReplicas(&op))
          sum = &op;
    }
    if (sync.isApart() && sum)
      return sum->emitError("'dist.sync' says --sync ") << mode << ", whose replicas exchange nothing within a step" << again;
    if (!sync.isApart() && isSplit && !sum && !isNarrow)
      return module.emitError("the replicas of the training step exchange nothing, as those of --sync local, gossip and async-server, but "
                              "'dist.sync' says --sync ")
             << mode << again;
    return success();
  }

  ModuleOp module;
  const Sync &sync;
  const StringRef mode;
  SmallVector<func::FuncOp> steps; // the training step, or its tasks
};
} // namespace

LogicalResult pipelining::checkSync(ModuleOp module) {
  auto sync = Sync::of(module);
  return failed(sync) ? failure() : Check(module, *sync).run();
}
