#include "dialects/Dist/Sync.h"
#include "dialects/Dist/Tasks.h"
#include "dialects/Graph/Nodes.h"
#include "passes/Pipelining/StepParts.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace divisi::pipelining {
#define GEN_PASS_DEF_SERVEUPDATESPASS
#include "passes/Pipelining/Passes.h.inc"

using namespace dist;

namespace {

constexpr StringLiteral updateTask = "train.0.finish";

bool isOverReplicas(Operation *op) {
  auto axes = op->getAttrOfType<ArrayAttr>("axes");
  return axes && isa<DistDialect>(op->getDialect()) && llvm::any_of(axes.getAsRange<StringAttr>(), [](StringAttr axis) {
           return axis.getValue() == replicaAxis;
         });
}

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
    std::optional<StringRef> how;
    for (Operation *user : argument.getUsers()) {
      StringRef now = isOverReplicas(user) ? stringifyReductionKind(cast<AllReduceOp>(user).getKind()) : "copy";
      if (how.value_or(now) != now)
        return graph::readerOf(user)->emitError("--sync ")
               << mode << " --servers N: the update reads a value of each worker and of all: take --servers colocated";
      how = now;
    }
    task.setArgAttr(i, dist::names::pushed, b.getStringAttr(how.value_or("copy")));
  }
  return success();
}

/// Makes of an update the updates of each server.
class Shares {
public:
  Shares(func::FuncOp task, int64_t servers) : task(task), servers(servers) {}

  void write() {
    assign();
    separateSums();
    std::string name = task.getName().str();
    for (int64_t server = servers - 1; server >= 0; --server) { // the first is the task itself
      func::FuncOp share = server == 0 ? task : task.clone();
      if (server > 0) {
        share.setName(("train." + Twine(server) + ".finish").str());
        task->getParentOfType<ModuleOp>().insert(std::next(task->getIterator()), share);
      }
      keep(share, server);
    }
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
      if (op->use_empty())
        op->erase();
    llvm::BitVector unread(share.getNumArguments());
    for (BlockArgument argument : share.getArguments())
      unread[argument.getArgNumber()] = // state is in the first one's task at least
          argument.use_empty() && (server > 0 || share.getArgAttr(argument.getArgNumber(), names::held));
    (void)share.eraseArguments(unread);
  }

  func::FuncOp task;
  const int64_t servers;
  llvm::StringMap<std::string> owners; // of states
  llvm::StringMap<int64_t> serverOf;   // by owner
  llvm::StringSet<> counters;
};

struct ServeUpdatesPass : impl::ServeUpdatesPassBase<ServeUpdatesPass> {
  void runOnOperation() final {
    auto sync = Sync::of(getOperation());
    if (failed(sync))
      return signalPassFailure();
    auto task = getOperation().lookupSymbol<func::FuncOp>(updateTask);
    if (sync->servers == 0 || !task)
      return;
    if (failed(markPushed(task, Sync::nameOf(sync->mode))))
      return signalPassFailure();
    if (sync->servers == 1)
      return;
    Shares(task, sync->servers).write();
    for (auto schedule : getOperation().getOps<ScheduleOp>())
      if (schedule.getFunction() == "train") {
        Builder b(schedule);
        SmallVector<Attribute> row(cast<ArrayAttr>(schedule.getRows()[0]).getValue());
        for (int64_t server = 1; server < sync->servers; ++server)
          row.push_back(b.getStringAttr(Twine(server) + ".finish 0"));
        schedule.setRowsAttr(b.getArrayAttr({b.getArrayAttr(row)}));
      }
  }
};
} // namespace
} // namespace divisi::pipelining
