#include "codegen/Kernels/BatchKernels.h"
#include "codegen/Kernels/CheckTasks.h"
#include "codegen/Kernels/FixedPlaces.h"
#include "codegen/Kernels/InPlace.h"
#include "codegen/Kernels/Passes.h"
#include "dialects/Exec/ArenaLayout.h"
#include "divisi/abi.h"

#include <map>

using namespace mlir;

namespace divisi::codegen {
#define GEN_PASS_DEF_ASSIGNBUFFERSPASS
#include "codegen/Kernels/Passes.h.inc"

namespace {

/// The value in whose buffer a value is: reshapes are views.
Value bufferOf(Value value) { return graph::withoutReshape(value); }

bool isWorkspace(Value value) {
  auto call = value.getDefiningOp<exec::CallOp>();
  return call && call.getWorkspace() == value;
}

/// Assigns buffers to the values of one task.
class TaskPlanner {
public:
  TaskPlanner(func::FuncOp task, const FixedPlaces &fixed) : task(task) {
    for (BlockArgument argument : task.getArguments()) {
      int64_t offset = fixed.ofArgument(task, argument.getArgNumber());
      places[argument] = offset;
      task.setArgAttr(argument.getArgNumber(), exec::names::offset, Builder(task).getI64IntegerAttr(offset));
    }
  }

  /// Assigns the fixed places of renewed state and of values that the task passes on. Inserts a copy where a value
  /// cannot be computed in its place.
  void placeResults(const FixedPlaces &fixed) {
    Operation *terminator = task.getBody().front().getTerminator();
    for (auto [i, value] : llvm::enumerate(terminator->getOperands())) {
      auto place = fixed.ofResult(task, i);
      Value buffer = bufferOf(value);
      auto argument = dyn_cast<BlockArgument>(buffer);
      bool inSlot =
          argument && (fixed.ofArgument(task, argument.getArgNumber()) & exec::slotBit); // no place for a report
      if (place ? !mayLieAt(buffer, argumentAt(*place)) : inSlot) {
        OpBuilder builder(terminator);
        auto copy = exec::CopyOp::create(builder, value.getLoc(), value.getType(), value);
        // What is not wanted in every step is not copied in every step.
        auto item = buffer.getDefiningOp<exec::ItemInterface>();
        if (auto when = item ? item.getWhen() : std::nullopt)
          copy.setWhen(*when);
        else if (auto wanted = task.getResultAttrOfType<IntegerAttr>(i, dist::names::when))
          copy.setWhen(wanted.getInt());
        terminator->setOperand(i, copy.getOutput());
        buffer = copy.getOutput();
      }
      if (place)
        places[buffer] = *place;
    }
  }

  /// Assigns offsets from `base` on to all other values; returns the end.
  int64_t layOut(int64_t base) {
    SmallVector<Value> values;
    std::vector<exec::BufferLife> lives;
    llvm::DenseMap<Value, size_t> indexOf;
    int64_t step = 0;
    Block &block = task.getBody().front();
    for (Operation &op : block) {
      bool isView = isa<graph::ReshapeOp, graph::ConstantOp>(op);
      if (!isView && !followsInBatch(&op)) // kernels of a batch run at the same time
        ++step;
      for (Value operand : op.getOperands())
        if (auto it = indexOf.find(bufferOf(operand)); it != indexOf.end())
          lives[it->second].last = step;
      if (!isView)
        for (Value result : op.getResults()) {
          if (places.count(result))
            continue;
          indexOf[result] = values.size();
          values.push_back(result);
          lives.push_back({graph::bytesOf(result.getType()), step, step, isWorkspace(result) ? DIVISI_WORKSPACE_ALIGNMENT : 1});
        }
    }
    reuseInputs(values, lives, indexOf);
    if (llvm::any_of(values, isWorkspace))
      base = llvm::alignTo(base, DIVISI_WORKSPACE_ALIGNMENT);
    auto layout = exec::ArenaLayout::plan(lives, DIVISI_ALIGNMENT);
    for (auto [value, index] : indexOf)
      places[value] = base + layout.offsets[index];
    return base + layout.bytes;
  }

  void write() {
    Builder builder(task);
    Block &block = task.getBody().front();
    for (auto item : block.getOps<exec::ItemInterface>()) {
      if (item->getNumResults() == 0)
        continue;
      SmallVector<int64_t> offsets;
      for (Value result : item->getResults())
        offsets.push_back(places.lookup(result));
      item.setOffsetsAttr(builder.getDenseI64ArrayAttr(offsets));
    }
    for (auto [i, value] : llvm::enumerate(block.getTerminator()->getOperands()))
      if (!bufferOf(value).getDefiningOp<graph::ConstantOp>())
        task.setResultAttr(i, exec::names::offset, builder.getI64IntegerAttr(places.lookup(bufferOf(value))));
  }

private:
  /// The state, or the value that the previous microbatch left, that is in this place when the task begins.
  BlockArgument argumentAt(int64_t place) {
    for (BlockArgument argument : task.getArguments())
      if (places.lookup(argument) == place && (task.getArgAttr(argument.getArgNumber(), graph::names::state) ||
                                               task.getArgAttr(argument.getArgNumber(), dist::names::held)))
        return argument;
    return {};
  }

  /// Whether a value may be computed in the place of an old one (null: the place is free): the old value has no later
  /// use, the value is computed in this task and has no place yet, and its kernel reads the old value only at the
  /// elements that it writes.
  bool mayLieAt(Value value, BlockArgument old) {
    Operation *producer = value.getDefiningOp();
    if (!producer || places.count(value))
      return false;
    if (!old)
      return isa<exec::KernelOp, exec::CallOp>(producer);
    if (!isa<exec::KernelOp>(producer))
      return false;
    SmallVector<Value> readers = {old};
    while (!readers.empty())
      for (Operation *user : readers.pop_back_val().getUsers()) {
        if (isa<graph::ReshapeOp>(user))
          readers.push_back(user->getResult(0));
        else if (producer->isBeforeInBlock(user) || (user != producer && areTogether(user, producer)))
          return false;
      }
    auto kernel = cast<exec::KernelOp>(producer);
    for (auto [i, input] : llvm::enumerate(kernel.getInputs()))
      if (bufferOf(input) == old && !writesOnlyWhereItReads(kernel, cast<OpResult>(value).getResultNumber(), i))
        return false;
    return true;
  }

  /// Lets a kernel's result reuse the buffer of an input whose last use is this kernel.
  void reuseInputs(SmallVectorImpl<Value> &values, std::vector<exec::BufferLife> &lives,
                   llvm::DenseMap<Value, size_t> &indexOf) {
    for (size_t i = 0; i < values.size(); ++i) {
      auto kernel = values[i].getDefiningOp<exec::KernelOp>();
      if (!kernel || indexOf[values[i]] != i)
        continue;
      for (auto [k, input] : llvm::enumerate(kernel.getInputs())) {
        auto it = indexOf.find(bufferOf(input));
        if (it == indexOf.end())
          continue;
        exec::BufferLife &source = lives[it->second];
        bool dies = source.last == lives[i].first, fits = source.bytes == lives[i].bytes;
        bool single = llvm::count(llvm::map_range(kernel.getInputs(), bufferOf), bufferOf(input)) == 1;
        unsigned result = cast<OpResult>(values[i]).getResultNumber();
        if (!dies || !fits || !single || !writesOnlyWhereItReads(kernel, result, k))
          continue;
        source.last = lives[i].last;
        lives[i] = {0, lives[i].first, lives[i].first};
        indexOf[values[i]] = it->second;
        break;
      }
    }
  }

  func::FuncOp task;
  llvm::DenseMap<Value, int64_t> places; // by buffer
};

struct AssignBuffersPass : impl::AssignBuffersPassBase<AssignBuffersPass> {
  using AssignBuffersPassBase::AssignBuffersPassBase;

  void runOnOperation() final {
    if (failed(checkTasks(getOperation())))
      return signalPassFailure();
    SmallVector<int64_t> arenas;
    for (auto &[device, tasks] : dist::tasksByDevice(getOperation())) {
      FixedPlaces fixed(tasks, getOperation(), device);
      int64_t total = fixed.end();
      for (func::FuncOp task : tasks) {
        TaskPlanner planner(task, fixed);
        planner.placeResults(fixed);
        total = std::max(total, planner.layOut(fixed.end()));
        planner.write();
      }
      arenas.push_back(total);
    }
    Builder builder(&getContext());
    getOperation()->setAttr(exec::names::arena,
                            builder.getI64IntegerAttr(arenas.empty() ? 0 : *llvm::max_element(arenas)));
    if (arenas.size() > 1)
      getOperation()->setAttr(exec::names::arenas, builder.getDenseI64ArrayAttr(arenas));
  }
};
} // namespace
} // namespace divisi::codegen
