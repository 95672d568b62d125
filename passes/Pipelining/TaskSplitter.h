#pragma once
#include "dialects/Dist/StageAxes.h"
#include "passes/Pipelining/StageDecisions.h"
#include "passes/Pipelining/TaskWriter.h"
#include "passes/Planning/Simulator/Schedule.h"

#include <map>

namespace divisi::pipelining {

/// The number of a task is its stage. Tasks that run once in a step belong to a device, which may have several stages,
/// and have the device's number.
struct TaskKey {
  dist::TaskKind kind;
  int number;
  auto operator<=>(const TaskKey &) const = default;
  bool once() const { return dist::isOnce(kind); }
};

/// Cuts a function with microbatches into tasks by stage, and writes the schedule.
class TaskSplitter {
public:
  TaskSplitter(mlir::func::FuncOp function, StepParts parts, const planning::pipeline::ScheduleOptions &options,
               StageDecisions decisions = {});
  llvm::LogicalResult run(int64_t &nextMessage);

private:
  int devices() const { return options.devices; }
  bool piped() const { return options.stages() > 1; }
  /// Whether a step consists of tasks of several minibatches.
  bool asynchronous() const { return options.unsplit() && isTraining(); }
  /// Whether tasks of a batch of several microbatches run while those of the batch before are in flight.
  bool doubleBuffered() const { return options.doubleBuffered() && isTraining(); }
  bool isTraining() const { return mlir::func::FuncOp(function).getName() == "train"; }
  void findMesh();
  void fail(const llvm::Twine &message);
  int deviceOf(TaskKey key) const { return key.once() ? key.number : options.deviceOf(key.number); }
  TaskKey keyOf(mlir::Operation *op) const;
  TaskWriter &task(TaskKey key);
  /// Whether an operation needs no task of its own, because every task that uses it recomputes it.
  bool isUnused(mlir::Operation &op) const;
  void write(mlir::Operation *op);
  /// Adds a microbatch's value to the sum so far; the first microbatch's value starts the sum. Replicas that take
  /// microbatches in turn have a sum each.
  void accumulate(graph::AccumulateOp op, TaskKey key);
  /// The axis along which the replicas of a task's stage take microbatches in turn; there are some.
  std::string turnAxisOf(TaskWriter &writer) const;
  /// What all these replicas have together.
  mlir::Value overReplicas(TaskWriter &writer, mlir::Value value, dist::ReductionKind kind) const;
  mlir::BlockArgument indexArgument() const;
  /// The value in a task: defined there, recomputed, held by another task of the same device, or received.
  mlir::Value get(TaskKey key, mlir::Value value);
  /// An argument in a task of an asynchronous schedule. Its forward tasks run before older minibatches have updated the
  /// weights.
  mlir::Value ofMinibatch(TaskKey key, mlir::BlockArgument argument);
  /// With two versions of the weights: the start of a batch takes the version that its passes read, and a stash keeps
  /// for the backward passes and the update what the start of the next batch replaces. Null: as in other schedules.
  mlir::Value ofBatch(TaskKey key, mlir::Value value);
  /// Finds what every task computes from inputs of the batch, where it is not larger than what it is computed from.
  void findOfInputs();
  /// Where a task of a batch finds what the start of the batch has left.
  TaskKey startFor(TaskKey key);
  /// Whether a step renews an argument: a parameter that is trained.
  bool isRenewed(mlir::BlockArgument argument);
  /// The number of a step: that of the updates that were made, and of `more`, a scalar argument.
  mlir::Value numberOf(TaskKey key, mlir::BlockArgument step, llvm::StringRef more);
  /// Whether a value is computed in the update of another device.
  bool isOfOtherUpdate(TaskKey key, mlir::Value value);
  /// In place of a number that is made of the gradients of several stages, as the norm for clipping: that of this
  /// stage's own gradients. No update of a minibatch has those of all stages at once. What the update makes of a gradient
  /// that is of parameters of several stages, each of them makes of it.
  mlir::Value ofOwnStage(TaskKey key, mlir::Value value);
  /// What a minibatch leaves for the update of its stage. Replicas that take minibatches in turn update together at the
  /// end of a round, by the mean of what its minibatches left; a round that the end of the pipeline's work cuts short
  /// has fewer. The scalar `turn` is the number of the last one in the round.
  mlir::Value ofRound(TaskKey key, mlir::Value value);
  /// With vertical sync, device k stashes its weights for the minibatch that enters the pipeline k steps later.
  int lead(int device) const { return options.staleness == planning::pipeline::Staleness::verticalSync ? device : 0; }
  mlir::Value take(TaskKey from, TaskKey key, mlir::Value value);
  /// The state of a parameter's optimizer by kind (momentum, exp_avg, ...), and the rule that make-train describes.
  std::pair<llvm::StringMap<mlir::BlockArgument>, mlir::DictionaryAttr> optimizerOf(mlir::BlockArgument parameter);
  /// The number of updates, without skipped ones, whose result a task reads; null if the function does not count its steps.
  mlir::Value updatesSoFar(TaskKey key);
  /// The weights after s more updates as the optimizer's state says (training::Optimizer::predict). On device k of n, s
  /// is k / 2 + n - k - 1 in the forward pass and k / 2 in the backward pass (arXiv 1809.02839, equations 5 and 6).
  mlir::Value predict(TaskKey key, mlir::BlockArgument argument);
  /// Whether a task of an asynchronous schedule recomputes an operation: cheap values that updates of several stages
  /// share, and values of the weights, which are others in an update, and perhaps in the backward pass.
  bool isAgain(TaskKey from, TaskKey key, mlir::Operation *op);
  mlir::Value again(TaskKey key, mlir::Value value);
  /// Passes a value from one task of a device to another.
  mlir::Value pass(TaskKey from, TaskKey key, mlir::Value value);
  /// Receives a value from another device, or from another stage of this one. The first task of the stage that uses it
  /// receives it.
  mlir::Value receive(TaskKey from, TaskKey key, mlir::Value value);
  void writeResults();
  /// Takes arguments that no task reads: such state is kept and saved, and such inputs remain inputs of the model. So
  /// the same files fit every plan.
  void keepArguments();
  void writeSchedule();

  mlir::func::FuncOp function;
  StepParts parts;
  const planning::pipeline::ScheduleOptions &options;
  StageDecisions decisions;
  mlir::Block &block;
  int64_t *messageId = nullptr;
  bool valid = true;
  dist::Mesh meshOfTasks;
  dist::StageAxes axesOfTasks; // with the axes of turns
  std::map<TaskKey, TaskWriter> tasks;
  llvm::DenseMap<mlir::Operation *, int64_t> when;
  llvm::DenseSet<mlir::Operation *> weights;
  llvm::DenseSet<mlir::Value> ofInputs;
  llvm::DenseMap<mlir::Operation *, std::pair<TaskKey, std::string>> sums;
  struct Passed {
    mlir::Value value;
    TaskKey from;
    bool operator<(const Passed &other) const {
      return std::pair(value.getAsOpaquePointer(), from) < std::pair(other.value.getAsOpaquePointer(), other.from);
    }
  };
  std::map<Passed, std::string> passed; // names by value and task; never iterated, for the order depends on addresses
};

} // namespace divisi::pipelining
