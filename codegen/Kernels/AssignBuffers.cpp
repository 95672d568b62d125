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

/// The value whose buffer a value lies in: reshapes are views.
Value bufferOf(Value value) { return graph::withoutReshape(value); }

/// Plans one task's transient values.
class TaskPlanner {
public:
  TaskPlanner(func::FuncOp task, const FixedPlaces &fixed) : task(task) {
    for (BlockArgument argument : task.getArguments()) {
      int64_t offset = fixed.ofArgument(task, argument.getArgNumber());
      places[argument] = offset;
      task.setArgAttr(argument.getArgNumber(), exec::names::offset, Builder(task).getI64IntegerAttr(offset));
    }
  }

  /// Makes every renewed state, and what the task passes on, a value that may lie in its place, and remembers it.
  void placeResults(const FixedPlaces &fixed) {
    Operation *terminator = task.getBody().front().getTerminator();
    for (auto [i, value] : llvm::enumerate(terminator->getOperands())) {
      auto place = fixed.ofResult(task, i);
      Value buffer = bufferOf(value);
      auto argument = dyn_cast<BlockArgument>(buffer);
      bool inSlot = argument &&
                    (fixed.ofArgument(task, argument.getArgNumber()) & exec::slotBit); // where no report is looked for
      if (place ? !mayLieAt(buffer, argumentAt(*place)) : inSlot) {
        OpBuilder builder(terminator);
        auto copy = exec::CopyOp::create(builder, value.getLoc(), value.getType(), value);
        terminator->setOperand(i, copy.getOutput());
        buffer = copy.getOutput();
      }
      if (place)
        places[buffer] = *place;
    }
  }

  /// Lays out the rest from `base` on; returns the end.
  int64_t layOut(int64_t base) {
    SmallVector<Value> values;
    std::vector<exec::BufferLife> lives;
    llvm::DenseMap<Value, size_t> indexOf;
    int64_t step = 0;
    Block &block = task.getBody().front();
    for (Operation &op : block) {
      bool isView = isa<graph::ReshapeOp, graph::ConstantOp>(op);
      if (!isView && !followsInBatch(&op)) // what is launched at once lives at the same time
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
          lives.push_back({graph::bytesOf(result.getType()), step, step});
        }
    }
    reuseInputs(values, lives, indexOf);
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
  /// The state, or what the microbatch before left, that lies there when the task begins.
  BlockArgument argumentAt(int64_t place) {
    for (BlockArgument argument : task.getArguments())
      if (places.lookup(argument) == place && (task.getArgAttr(argument.getArgNumber(), graph::names::state) ||
                                               task.getArgAttr(argument.getArgNumber(), dist::names::held)))
        return argument;
    return {};
  }

  /// Whether a value may be written where an old one lies (null: none): nobody reads the old one later, the value is
  /// made here, lies nowhere yet, and its kernel reads the old one only where it writes.
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

  /// A kernel's result takes the buffer of an input that dies there.
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
