#include "dialects/Dist/Tasks.h"
#include "dialects/Dist/StageAxes.h"

using namespace mlir;
using namespace divisi;

static int64_t numberIn(IntegerAttr stage) { return stage ? stage.getInt() : 0; }

int64_t dist::stageOf(Operation *op) { return numberIn(op->getAttrOfType<IntegerAttr>(names::stage)); }

int64_t dist::stageOf(BlockArgument argument) {
  auto function = cast<FunctionOpInterface>(argument.getOwner()->getParentOp());
  return numberIn(function.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), names::stage));
}

/// Names by enum value.
static constexpr StringLiteral taskKinds[] = {"start", "stash", "step", "forward", "backward", "weight", "finish"};

StringRef dist::nameOf(TaskKind kind) { return taskKinds[(int)kind]; }

std::optional<dist::TaskKind> dist::kindOf(StringRef task) {
  const auto *found = llvm::find(taskKinds, task.rsplit('.').second);
  return found == std::end(taskKinds) ? std::nullopt : std::optional((TaskKind)(found - taskKinds));
}

std::map<int64_t, SmallVector<func::FuncOp>> dist::tasksByDevice(ModuleOp module) {
  std::map<int64_t, SmallVector<func::FuncOp>> tasks;
  for (auto task : module.getOps<func::FuncOp>())
    tasks[stageOf(task)].push_back(task);
  return tasks;
}

int64_t dist::replicasOf(ModuleOp module, int64_t stage) {
  for (auto task : module.getOps<func::FuncOp>()) // all have the same mesh
    if (auto attr = task->getAttrOfType<MeshAttr>(names::partitioned)) {
      Mesh mesh = toMesh(attr);
      auto turns = StageAxes::of(task).turnsOf(stage, mesh);
      return turns ? mesh.axes[*turns].size : 1;
    }
  return 1;
}

dist::When dist::whenRuns(ScheduleOp schedule, const ScheduledTask &task) {
  std::optional<TaskKind> kind = kindOf(task.symbol);
  if (kind == TaskKind::finish)
    return When::last;
  return kind == TaskKind::start || (kind == TaskKind::stash && schedule.isDoubleBuffered()) ? When::first : When::each;
}

std::vector<dist::ScheduledTask> dist::tasksOf(ScheduleOp schedule, int64_t row) {
  std::vector<ScheduledTask> tasks;
  for (auto entry : cast<ArrayAttr>(schedule.getRows()[row]).getAsRange<StringAttr>()) {
    auto [task, number] = entry.getValue().split(' ');
    ScheduledTask &scheduled = tasks.emplace_back();
    scheduled.symbol = (schedule.getFunction() + "." + task).str();
    (void)number.getAsInteger(10, scheduled.microbatch); // verified
  }
  return tasks;
}
