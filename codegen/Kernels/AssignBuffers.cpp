#include "codegen/Kernels/InPlace.h"
#include "codegen/Kernels/Passes.h"
#include "dialects/Exec/ArenaLayout.h"
#include "divisi/abi.h"

#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace divisi::codegen {
#define GEN_PASS_DEF_ASSIGNBUFFERSPASS
#include "codegen/Kernels/Passes.h.inc"

namespace {

/// The value whose buffer a value lies in: reshapes are views.
Value bufferOf(Value value) {
  while (auto reshape = value.getDefiningOp<graph::ReshapeOp>())
    value = reshape.getX();
  return value;
}

int64_t roundUp(int64_t bytes) { return (bytes + DIVISI_ALIGNMENT - 1) / DIVISI_ALIGNMENT * DIVISI_ALIGNMENT; }

/// The name under which all tasks share an argument; one without a name is its task's own.
std::string sharedName(func::FuncOp task, unsigned argument) {
  if (auto state = task.getArgAttrOfType<DictionaryAttr>(argument, graph::names::state))
    return "state " + state.getAs<StringAttr>("name").str();
  for (StringRef kind : {graph::names::input, graph::names::scalar})
    if (auto name = task.getArgAttrOfType<StringAttr>(argument, kind))
      return (kind + " " + name.getValue()).str();
  return (task.getName() + " " + llvm::Twine(argument)).str();
}

/// Plans one task's transient values.
class TaskPlanner {
public:
  TaskPlanner(func::FuncOp task, const llvm::StringMap<int64_t> &fixed) : task(task) {
    for (BlockArgument argument : task.getArguments()) {
      int64_t offset = fixed.lookup(sharedName(task, argument.getArgNumber()));
      places[argument] = offset;
      task.setArgAttr(argument.getArgNumber(), exec::names::offset, Builder(task).getI64IntegerAttr(offset));
    }
  }

  /// Makes every renewed state a value that may lie where the old one lay, and remembers it.
  void renewStates(const llvm::StringMap<int64_t> &fixed) {
    Operation *terminator = task.getBody().front().getTerminator();
    for (auto [i, value] : llvm::enumerate(terminator->getOperands())) {
      auto name = task.getResultAttrOfType<StringAttr>(i, graph::names::renews);
      if (!name)
        continue;
      int64_t place = fixed.lookup("state " + name.str());
      BlockArgument old = argumentAt(place);
      Value buffer = bufferOf(value);
      if (!mayWriteOver(buffer, old)) {
        OpBuilder builder(terminator);
        auto copy = exec::CopyOp::create(builder, value.getLoc(), value.getType(), value, DenseI64ArrayAttr());
        terminator->setOperand(i, copy.getOutput());
        buffer = copy.getOutput();
      }
      places[buffer] = place;
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
      for (Value operand : op.getOperands())
        if (auto it = indexOf.find(bufferOf(operand)); it != indexOf.end())
          lives[it->second].last = step;
      if (!isa<graph::ReshapeOp, graph::ConstantOp>(op))
        for (Value result : op.getResults()) {
          if (places.count(result))
            continue;
          indexOf[result] = values.size();
          values.push_back(result);
          lives.push_back({graph::bytesOf(result.getType()), step, step});
        }
      ++step;
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
    for (Operation &op : block)
      if (isa<exec::KernelOp, exec::CallOp, exec::CopyOp>(op)) {
        SmallVector<int64_t> offsets;
        for (Value result : op.getResults())
          offsets.push_back(places.lookup(result));
        op.setAttr("offsets", builder.getDenseI64ArrayAttr(offsets));
      }
    for (auto [i, value] : llvm::enumerate(block.getTerminator()->getOperands()))
      if (!bufferOf(value).getDefiningOp<graph::ConstantOp>())
        task.setResultAttr(i, exec::names::offset, builder.getI64IntegerAttr(places.lookup(bufferOf(value))));
  }

private:
  BlockArgument argumentAt(int64_t place) {
    for (BlockArgument argument : task.getArguments())
      if (places.lookup(argument) == place && task.getArgAttr(argument.getArgNumber(), graph::names::state))
        return argument;
    return {};
  }

  /// Whether a value may be written over an old state: nobody reads the old one later, the value is made here, lies
  /// nowhere yet, and its kernel reads the old state only where it writes.
  bool mayWriteOver(Value value, BlockArgument old) {
    Operation *producer = value.getDefiningOp();
    if (!producer || places.count(value) || !isa<exec::KernelOp>(producer))
      return false;
    SmallVector<Value> readers = {old};
    while (!readers.empty())
      for (Operation *user : readers.pop_back_val().getUsers()) {
        if (isa<graph::ReshapeOp>(user))
          readers.push_back(user->getResult(0));
        else if (producer->isBeforeInBlock(user))
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
    llvm::StringMap<int64_t> fixed;
    int64_t end = 0, total = 0;
    for (auto task : getOperation().getOps<func::FuncOp>())
      for (BlockArgument argument : task.getArguments())
        if (auto [it, fresh] = fixed.try_emplace(sharedName(task, argument.getArgNumber()), end); fresh)
          end += roundUp(graph::bytesOf(argument.getType()));
    for (auto task : getOperation().getOps<func::FuncOp>()) {
      TaskPlanner planner(task, fixed);
      planner.renewStates(fixed);
      total = std::max(total, planner.layOut(end));
      planner.write();
    }
    getOperation()->setAttr(exec::names::arena, Builder(&getContext()).getI64IntegerAttr(std::max(total, end)));
  }
};
} // namespace
} // namespace divisi::codegen
