#include "codegen/Kernels/FusedBlock.h"

#include "codegen/Lowering/ScalarBuilder.h"
#include "dialects/Dist/Dist.h"
#include "dialects/Graph/Graph.h"
#include "dialects/Graph/WhenNeeded.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::codegen;

namespace {

/// A block of the IR as one without, and back.
class Bridge {
public:
  explicit Bridge(Block &block) : block(block) {}

  step::Block describe() {
    for (BlockArgument argument : block.getArguments())
      add(argument);
    for (Operation &op : block.without_terminator())
      describe(op);
    auto function = cast<func::FuncOp>(block.getParentOp());
    for (auto [i, value] : llvm::enumerate(block.getTerminator()->getOperands()))
      described.addOutput(numbers.lookup(value), graph::whenNeeded(function, i));
    return std::move(described);
  }

  /// Rewrites the block as a fusion has: copies, what they read, and what is no longer read.
  void apply(const step::Block &after) {
    std::vector<int> order = after.order();
    Operation *next = block.getTerminator(); // the operation of the IR that comes behind
    std::vector<Operation *> behind(after.size());
    for (int op : llvm::reverse(order)) {
      behind[op] = next;
      if (op < (int)operations.size())
        next = operations[op];
    }
    operations.resize(after.size());
    llvm::BitVector left(after.size());
    for (int op : order) {
      left.set(op);
      if (!operations[op]) {
        OpBuilder builder(behind[op]);
        operations[op] = builder.clone(*operations[after.op(op).origin]);
        for (auto [number, value] : llvm::zip(after.op(op).results, operations[op]->getResults()))
          values[number] = value;
      }
      for (auto [i, number] : llvm::enumerate(after.op(op).operands))
        if (operations[op]->getOperand(i) != values[number])
          operations[op]->setOperand(i, values[number]);
    }
    for (int op = after.size(); op-- > 0;) // numbers of the IR's operations are in its order: readers go first
      if (!left.test(op) && operations[op])
        operations[op]->erase();
  }

  Operation *operation(int number) const { return operations[number]; }

private:
  int add(Value value) {
    auto type = cast<ShapedType>(value.getType());
    int number = described.addValue(type.getNumElements(), graph::bytesOf(type));
    numbers[value] = number;
    values[number] = value;
    return number;
  }

  void describe(Operation &op) {
    step::Block::Op entry;
    auto cost = dyn_cast<graph::CostInterface>(op);
    entry.form = cost ? cost.getForm() : graph::Form::call; // (collectives and messages)
    for (Value operand : op.getOperands())
      entry.operands.push_back(numbers.lookup(operand));
    for (Value result : op.getResults())
      entry.results.push_back(add(result));
    if (auto loop = dyn_cast<LoopInterface>(op)) {
      LoopDomain domain = loop.getLoopDomain();
      entry.extents.assign(domain.extents.begin(), domain.extents.end());
      entry.reduced.assign(domain.reduced.begin(), domain.reduced.end());
    }
    if (isa<LoopInterface, SerialInterface>(op)) {
      auto rule = cast<dist::ShardingRuleInterface>(op).getShardingRule();
      for (unsigned i = 0; i < op.getNumOperands(); ++i)
        entry.rows.push_back(
            step::rowsThrough(rule, i, graph::shapeOf(op.getOperand(i)), graph::shapeOf(op.getResult(0))));
    }
    if (cost && op.getNumOperands())
      entry.flops = cost.getFlopsPerPoint();
    entry.always = isa<dist::ReceiveOp>(op); // the sender does not know who reads it
    described.addOp(std::move(entry));
    operations.push_back(&op);
  }

  Block &block;
  step::Block described;
  llvm::DenseMap<Value, int> numbers;
  llvm::DenseMap<int, Value> values;
  std::vector<Operation *> operations; // by number
};
} // namespace

FusedBlock::FusedBlock(Block &block, bool forGpu) {
  Bridge bridge(block);
  step::Fusion fusion(bridge.describe(), forGpu);
  bridge.apply(fusion.getBlock());
  for (int op : fusion.getBlock().order()) {
    if (fusion.isStage(op))
      stages.insert(bridge.operation(op));
    if (int64_t bits = fusion.getWhen(op))
      when[bridge.operation(op)] = bits;
  }
  for (const step::Fusion::Kernel &kernel : fusion.getKernels()) {
    Kernel &entry = kernels.emplace_back(Kernel{{}, kernel.rows, kernel.serial, kernel.when});
    for (int stage : kernel.stages)
      entry.stages.push_back(bridge.operation(stage));
  }
}
