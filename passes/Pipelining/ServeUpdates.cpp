#include "dialects/Dist/Sync.h"
#include "dialects/Dist/Tasks.h"
#include "dialects/Graph/Nodes.h"
#include "passes/Pipelining/CheckSync.h"
#include "passes/Pipelining/StepParts.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace divisi::pipelining {
#define GEN_PASS_DEF_SERVEUPDATESPASS
#include "passes/Pipelining/Passes.h.inc"

using namespace dist;

namespace {

constexpr int64_t mostStages = 1 << 20; // of a module that somebody has written

/// Writes what workers send for an update, and how the values of several workers are combined.
LogicalResult markPushed(func::FuncOp task, StringRef mode) {
  Builder b(task);
  for (Operation &op : task.getBody().front()) {
    bool ofArguments = llvm::all_of(op.getOperands(), [](Value value) { return isa<BlockArgument>(value); });
    if (isOverReplicas(&op) && !(isa<AllReduceOp>(op) && ofArguments))
      return graph::readerOf(&op)->emitError("--sync ")
             << mode << " --servers N has workers that send their gradients as they are, but here something else is exchanged "
             << "before the update: take --servers colocated";
  }
  for (BlockArgument argument : task.getArguments()) {
    unsigned i = argument.getArgNumber();
    if (task.getArgAttr(i, graph::names::state) || task.getArgAttr(i, graph::names::scalar))
      continue;
    const Combination combination = combinationOf(argument);
    if (combination.odd)
      return graph::readerOf(combination.odd)->emitError("--sync ")
             << mode << " --servers N: the update reads a value of each worker and of all: take --servers colocated";
    task.setArgAttr(i, dist::names::pushed, b.getStringAttr(combination.how));
  }
  return success();
}

/// Servers have no other tasks of a step: what stages send each other for an update, as the norm for clipping, must be
/// made in updates.
LogicalResult checkMessages(ArrayRef<func::FuncOp> tasks, ArrayRef<func::FuncOp> updates, StringRef mode) {
  auto messageOf = [](Operation &op) {
    return isa<SendOp, ReceiveOp>(op) ? op.getAttrOfType<IntegerAttr>("id") : IntegerAttr();
  };
  DenseMap<Attribute, Operation *> ofUpdates;
  for (func::FuncOp update : updates)
    for (Operation &op : update.getBody().front())
      if (IntegerAttr id = messageOf(op))
        ofUpdates[id] = &op;
  for (func::FuncOp task : tasks)
    for (Operation &op : task.getBody().front())
      if (IntegerAttr id = messageOf(op); id && ofUpdates.contains(id) && !llvm::is_contained(updates, task))
        return graph::readerOf(ofUpdates[id])->emitError("--sync ")
               << mode << " --servers N: the update of a stage reads what another stage has computed before: take "
               << "--servers colocated";
  return success();
}

/// Makes of the update of a stage the updates of each server.
class Shares {
public:
  /// `stages`: from one server's tasks to those of the next one, by number.
  Shares(func::FuncOp task, int64_t servers, int64_t stages) : task(task), servers(servers), stages(stages) {}

  /// Returns the numbers of the new tasks, by server.
  SmallVector<int64_t> write() {
    assign();
    separateSums();
    SmallVector<int64_t> numbers;
    for (int64_t server = servers - 1; server >= 0; --server) { // the first is the task itself
      func::FuncOp share = server == 0 ? task : task.clone();
      if (server > 0) {
        numbers.insert(numbers.begin(), dist::stageOf(task) + server * stages);
        share.setName(("train." + Twine(numbers.front()) + ".finish").str());
        task->getParentOfType<ModuleOp>().insert(std::next(task->getIterator()), share);
      }
      keep(share, server);
    }
    return numbers;
  }

private:
  /// The parameter to which a state belongs, or the state itself.
  StringRef ownerOf(BlockArgument argument) {
    auto state = task.getArgAttrOfType<DictionaryAttr>(argument.getArgNumber(), graph::names::state);
    auto of = state.getAs<StringAttr>("of");
    return of ? of.getValue() : state.getAs<StringAttr>("name").getValue();
  }

  void assign() {
    llvm::MapVector<StringRef, int64_t> bytes;
    for (BlockArgument argument : task.getArguments())
      if (task.getArgAttr(argument.getArgNumber(), graph::names::state)) {
        owners[graph::nameOfArgument(argument)] = ownerOf(argument).str();
        bytes[ownerOf(argument)] += graph::bytesOf(argument.getType());
        if (graph::roleOf(argument) == "step")
          counters.insert(graph::nameOfArgument(argument));
      }
    auto largestFirst = bytes.takeVector();
    llvm::stable_sort(largestFirst, [](const auto &a, const auto &b) { return a.second > b.second; });
    SmallVector<int64_t> load(servers);
    for (auto &[owner, size] : largestFirst) {
      auto least = llvm::min_element(load);
      serverOf[owner] = least - load.begin();
      *least += size;
    }
  }

  /// Gradients that are reduced together may be of several servers.
  void separateSums() {
    for (auto reduce : llvm::make_early_inc_range(task.getOps<AllReduceOp>())) {
      if (reduce.getInputs().size() == 1)
        continue;
      OpBuilder builder(reduce);
      for (auto [input, result] : llvm::zip(reduce.getInputs(), reduce.getResults()))
        result.replaceAllUsesWith(
            AllReduceOp::create(builder, reduce.getLoc(), input.getType(), input, reduce.getKind(), reduce.getAxes()).getResult(0));
      reduce.erase();
    }
  }

  /// Leaves the results of a server, and what they need. All count their steps; the first one reports.
  void keep(func::FuncOp share, int64_t server) {
    Operation *end = share.getBody().front().getTerminator();
    llvm::BitVector others(share.getNumResults());
    for (unsigned i = 0; i < share.getNumResults(); ++i) {
      auto renews = share.getResultAttrOfType<StringAttr>(i, graph::names::renews);
      auto report = share.getResultAttrOfType<DictionaryAttr>(i, graph::names::result);
      bool ofAllServers = report && report.getAs<StringAttr>("kind") == "grad_norm"; // no server has all gradients
      bool own = !renews ? server == 0 && !ofAllServers : counters.contains(renews.getValue()) || serverOf[owners[renews.getValue()]] == server;
      others[i] = !own;
    }
    end->eraseOperands(others);
    (void)share.eraseResults(others);
    auto operations = llvm::to_vector(llvm::make_pointer_range(share.getBody().front().without_terminator()));
    for (Operation *op : llvm::reverse(operations))
      if (op->use_empty() && !isa<SendOp, ReceiveOp>(op)) // a server's updates of all stages exchange the same
        op->erase();
    llvm::BitVector unread(share.getNumArguments());
    for (BlockArgument argument : share.getArguments())
      unread[argument.getArgNumber()] = // state is in the first one's task at least
          argument.use_empty() && (server > 0 || share.getArgAttr(argument.getArgNumber(), names::held));
    (void)share.eraseArguments(unread);
  }

  func::FuncOp task;
  const int64_t servers, stages;
  llvm::StringMap<std::string> owners; // of states
  llvm::StringMap<int64_t> serverOf;   // by owner
  llvm::StringSet<> counters;
};

struct ServeUpdatesPass : impl::ServeUpdatesPassBase<ServeUpdatesPass> {
  void runOnOperation() final {
    auto sync = Sync::of(getOperation());
    if (failed(sync))
      return signalPassFailure();
    if (sync->servers == 0)
      return;
    SmallVector<func::FuncOp> tasks, updates;
    int64_t stages = 1;
    for (auto task : getOperation().getOps<func::FuncOp>()) {
      auto kind = kindOf(task.getName());
      if (functionOf(task.getName()) != "train" || !kind)
        continue;
      tasks.push_back(task);
      if (*kind == TaskKind::finish)
        updates.push_back(task);
      int64_t number = 0;
      (void)groupOf(task.getName()).rsplit('.').second.getAsInteger(10, number); // of the stage
      if (number < 0 || number >= mostStages) {
        task.emitOpError("has a stage above ") << mostStages;
        return signalPassFailure();
      }
      stages = std::max(stages, number + 1);
    }
    const StringRef mode = Sync::nameOf(sync->mode);
    if (failed(checkMessages(tasks, updates, mode)))
      return signalPassFailure();
    for (func::FuncOp update : updates) {
      if (failed(markPushed(update, mode)))
        return signalPassFailure();
      if (sync->servers > 1 && failed(schedule(update, Shares(update, sync->servers, stages))))
        return signalPassFailure();
    }
  }

private:
  /// Makes the updates of more servers, and adds them to what the stage's device runs.
  LogicalResult schedule(func::FuncOp update, Shares shares) {
    const int64_t device = stageOf(update);
    ScheduleOp schedule;
    for (auto one : getOperation().getOps<ScheduleOp>())
      if (one.getFunction() == "train")
        schedule = one;
    if (schedule && (device < 0 || device >= static_cast<int64_t>(schedule.getRows().size())))
      return schedule.emitOpError("has no row for stage ") << device;
    const SmallVector<int64_t> numbers = shares.write();
    if (!schedule)
      return success();
    Builder b(schedule);
    SmallVector<Attribute> rows(schedule.getRows().getValue()), row(cast<ArrayAttr>(rows[device]).getValue());
    for (int64_t number : numbers)
      row.push_back(b.getStringAttr(Twine(number) + ".finish 0"));
    rows[device] = b.getArrayAttr(row);
    schedule.setRowsAttr(b.getArrayAttr(rows));
    return success();
  }
};
} // namespace
} // namespace divisi::pipelining
