#include "dialects/Graph/WhenNeeded.h"
#include "passes/Partitioning/Passes.h"

using namespace mlir;

namespace divisi::partitioning {
#define GEN_PASS_DEF_BUCKETGRADIENTSPASS
#include "passes/Partitioning/Passes.h.inc"

using dist::AllReduceOp;

namespace {

/// Replaces all_reduces by one at the position of the last.
AllReduceOp combine(ArrayRef<AllReduceOp> members) {
  OpBuilder builder(members.back());
  SmallVector<Value> inputs, results;
  SmallVector<Location> locations;
  for (AllReduceOp member : members) {
    llvm::append_range(inputs, member.getInputs());
    llvm::append_range(results, member.getResults());
    locations.push_back(member.getLoc());
  }
  AllReduceOp last = members.back();
  auto combined = AllReduceOp::create(builder, builder.getFusedLoc(locations), TypeRange(ValueRange(inputs)), inputs,
                                      last.getKind(), last.getAxes());
  for (auto [old, result] : llvm::zip(results, combined.getResults()))
    old.replaceAllUsesWith(result);
  for (AllReduceOp member : members)
    member.erase();
  return combined;
}

struct BucketGradientsPass : impl::BucketGradientsPassBase<BucketGradientsPass> {
  using BucketGradientsPassBase::BucketGradientsPassBase;

  void runOnOperation() final {
    if (getOperation().isDeclaration())
      return;
    Block &block = getOperation().getBody().front();
    const auto when = graph::whenNeeded(getOperation());
    step::Buckets buckets(bucketBytes);
    SmallVector<Operation *> ops; // by item
    llvm::DenseMap<Operation *, int> items;
    for (Operation &op : block.without_terminator()) {
      SmallVector<int> operands;
      for (Value operand : op.getOperands())
        if (Operation *producer = operand.getDefiningOp())
          operands.push_back(items.lookup(producer));
      if (isa<dist::SendOp, dist::ReceiveOp>(op)) // messages in between may depend on the one and the other on them
        buckets.close();
      auto reduce = dyn_cast<AllReduceOp>(op);
      items[&op] = reduce ? buckets.add(operands, describe(reduce, when.lookup(&op))) : buckets.add(operands);
      ops.push_back(&op);
    }
    SmallVector<int64_t> positions; // of the operations that are left
    SmallVector<Operation *> left;
    for (auto [item, op] : llvm::enumerate(ops)) {
      Operation *here = op;
      if (int bucket = buckets.bucketOf(item); bucket >= 0) {
        if (buckets.members(bucket).back() != (int)item)
          continue;
        SmallVector<AllReduceOp> members;
        for (int member : buckets.members(bucket))
          members.push_back(cast<AllReduceOp>(ops[member]));
        here = combine(members);
      }
      left.push_back(here);
      positions.push_back(item);
    }
    if (left.size() < ops.size()) // users of a bucket's early members move behind it
      sort(block, left, positions);
  }

private:
  step::AllReduce describe(AllReduceOp op, int64_t when) {
    step::AllReduce reduce;
    for (Attribute axis : op.getAxes())
      reduce.axes.push_back(numberOf(axis.getAsOpaquePointer()));
    reduce.kind = (dist::Reduction)op.getKind();
    reduce.element = numberOf(graph::tensorType(op.getInputs()[0]).getElementType().getAsOpaquePointer());
    reduce.when = when;
    for (Value input : op.getInputs())
      reduce.bytes += graph::bytesOf(input.getType());
    return reduce;
  }
  int numberOf(const void *unique) { return numbers.try_emplace(unique, numbers.size()).first->second; }

  static void sort(Block &block, ArrayRef<Operation *> ops, ArrayRef<int64_t> positions) {
    llvm::DenseMap<Operation *, int> numbers;
    for (auto [i, op] : llvm::enumerate(ops))
      numbers[op] = i;
    std::vector<SmallVector<int, 4>> operands;
    for (Operation *op : ops) {
      operands.emplace_back();
      for (Value operand : op->getOperands())
        if (Operation *producer = operand.getDefiningOp())
          operands.back().push_back(numbers.lookup(producer));
    }
    for (int number : step::sortByPosition(positions, operands))
      ops[number]->moveBefore(block.getTerminator());
  }

  llvm::DenseMap<const void *, int> numbers; // of axes and element types
};
} // namespace
} // namespace divisi::partitioning
