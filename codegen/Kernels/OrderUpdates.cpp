#include "codegen/Kernels/Passes.h"
#include "dialects/Dist/Tasks.h"
#include "dialects/Graph/Arguments.h"
#include "dialects/Graph/GraphBuilder.h"
#include "step/UpdateOrder.h"

using namespace mlir;

namespace divisi::codegen {
#define GEN_PASS_DEF_ORDERUPDATESPASS
#include "codegen/Kernels/Passes.h.inc"

namespace {

/// What a function runs, one after the other, and the buffers of its values.
class Items {
public:
  explicit Items(func::FuncOp function) {
    Block &block = function.getBody().front();
    for (Operation &op : block.without_terminator())
      if (isa<exec::ItemInterface>(&op))
        add(op);
    for (auto [i, value] : llvm::enumerate(block.getTerminator()->getOperands())) {
      const int buffer = bufferOf(value);
      bytes[buffer] = 0;
      auto name = function.getResultAttrOfType<StringAttr>(i, graph::names::renews);
      auto writer = writers.find(buffer);
      if (!name || writer == writers.end())
        continue;
      for (BlockArgument argument : block.getArguments())
        if (StringRef role = graph::roleOf(argument);
            !role.empty() && graph::nameOfArgument(argument) == name.getValue()) {
          step::OrderedItem &item = items[writer->second];
          item.renews.push_back(bufferOf(argument));
          item.trains |= role == "parameter" || role == "moment";
        }
    }
  }

  std::vector<int> order(bool forGpu) const { return step::orderUpdates(items, bytes, forGpu); }

  std::vector<Operation *> operations;

private:
  void add(Operation &op) {
    step::OrderedItem &item = items.emplace_back();
    item.call = isa<exec::CallOp>(&op);
    for (Value operand : op.getOperands())
      item.reads.push_back(bufferOf(operand));
    for (Value result : op.getResults()) {
      const int buffer = bufferOf(result);
      item.writes.push_back(buffer);
      bytes[buffer] = graph::bytesOf(cast<ShapedType>(result.getType()));
      writers[buffer] = operations.size();
    }
    operations.push_back(&op);
  }

  int bufferOf(Value value) {
    auto [it, fresh] = numbers.try_emplace(graph::withoutReshape(value), bytes.size());
    if (fresh)
      bytes.push_back(0);
    return it->second;
  }

  std::vector<step::OrderedItem> items;
  std::vector<int64_t> bytes; // by buffer
  llvm::DenseMap<Value, int> numbers;
  llvm::DenseMap<int, size_t> writers; // by buffer: the item
};

struct OrderUpdatesPass : impl::OrderUpdatesPassBase<OrderUpdatesPass> {
  using OrderUpdatesPassBase::OrderUpdatesPassBase;

  void runOnOperation() final {
    func::FuncOp function = getOperation();
    if (function.isDeclaration() || dist::kindOf(function.getName()) || function->hasAttr(dist::names::partitioned))
      return;
    Items items(function);
    std::vector<int> behind = items.order(forGpu);
    std::vector<int> order = step::sortBehind(behind);
    if (llvm::is_sorted(order))
      return;
    Block &block = function.getBody().front();
    SmallVector<Operation *> views =
        llvm::map_to_vector(block.getOps<graph::ReshapeOp>(), [](graph::ReshapeOp op) { return op.getOperation(); });
    for (int item : order)
      items.operations[item]->moveBefore(block.getTerminator());
    for (Operation *view : views) // (constants, and views of arguments, stay in front)
      if (Operation *source = view->getOperand(0).getDefiningOp())
        view->moveAfter(source);
  }
};
} // namespace
} // namespace divisi::codegen
