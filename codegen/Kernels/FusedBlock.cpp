#include "codegen/Kernels/FusedBlock.h"

#include "codegen/Kernels/DescribedBlock.h"
#include "dialects/Graph/WhenNeeded.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::codegen;

namespace {

/// A block of the IR as one without, and back.
class Bridge {
public:
  explicit Bridge(Block &block) : block(block), described(block), operations(described.operations) {
    for (auto [value, number] : described.numbers)
      values[number] = value;
  }

  step::Block describe() {
    auto function = cast<func::FuncOp>(block.getParentOp());
    for (auto [i, value] : llvm::enumerate(block.getTerminator()->getOperands()))
      described.block.addOutput(described.numbers.lookup(value), graph::whenNeeded(function, i));
    return std::move(described.block);
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
  Block &block;
  DescribedBlock described;
  llvm::DenseMap<int, Value> values;
  std::vector<Operation *> &operations; // by number
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
