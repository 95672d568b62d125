#pragma once
#include "dialects/Dist/Dist.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

#include <map>
#include <optional>

namespace divisi::dist {

/// The value of `dist.stage`; 0 if there is none.
int64_t stageOf(mlir::Operation *op);
int64_t stageOf(mlir::BlockArgument argument);

/// While it listens to a builder, new operations get the stage `stage`; null: none.
struct StageListener : mlir::OpBuilder::Listener {
  mlir::Attribute stage;
  /// Sets the stage to that of an operation; null: none.
  void follow(mlir::Operation *op) { stage = op ? op->getAttr(names::stage) : mlir::Attribute(); }
  void notifyOperationInserted(mlir::Operation *op, mlir::OpBuilder::InsertPoint) override {
    if (stage)
      op->setAttr(names::stage, stage);
  }
};

/// Kinds of tasks, in the order in which a device runs them for a microbatch. The first and the last run once in a
/// step.
enum class TaskKind { start, stash, step, forward, backward, weight, finish };
llvm::StringRef nameOf(TaskKind kind);
/// The kind of @train.0.forward; null for other names.
std::optional<TaskKind> kindOf(llvm::StringRef task);
inline bool isOnce(TaskKind kind) { return kind == TaskKind::start || kind == TaskKind::finish; }
/// The function and stage "train.0" of @train.0.forward: tasks of one group share buffer slots.
inline llvm::StringRef groupOf(llvm::StringRef task) { return task.rsplit('.').first; }
/// "train" of @train.0.forward.
inline llvm::StringRef functionOf(llvm::StringRef task) { return task.split('.').first; }

/// The functions of a module, by the pipeline's device that runs them.
std::map<int64_t, llvm::SmallVector<mlir::func::FuncOp>> tasksByDevice(mlir::ModuleOp module);

/// The number of replicas of a stage that take microbatches in turn (StageAxes::turnsOf).
int64_t replicasOf(mlir::ModuleOp module, int64_t stage);

/// An entry of a row of a schedule: "0.forward 3".
struct ScheduledTask {
  std::string symbol;     // of the task: train.0.forward
  int64_t microbatch = 0; // in an asynchronous schedule: relative to the newest minibatch
};
/// In an asynchronous schedule: whether a task runs for each minibatch, or for the first or the last one of those that
/// are updated together (a round of replicas, a batch of microbatches).
enum class When { each, first, last };
When whenRuns(ScheduleOp schedule, const ScheduledTask &task);

/// The tasks of a row of a verified schedule.
std::vector<ScheduledTask> tasksOf(ScheduleOp schedule, int64_t row);

} // namespace divisi::dist
