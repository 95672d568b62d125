#include "dialects/Graph/WhenNeeded.h"
#include "passes/Partitioning/Passes.h"

#include <queue>

using namespace mlir;

namespace divisi::partitioning {
#define GEN_PASS_DEF_BUCKETGRADIENTSPASS
#include "passes/Partitioning/Passes.h.inc"

using dist::AllReduceOp;

namespace {

int64_t bytesOf(AllReduceOp op) {
  int64_t bytes = 0;
  for (Value input : op.getInputs())
    bytes += graph::bytesOf(input.getType());
  return bytes;
}

/// A bucket is one operation at all times, so that the IR itself shows what depends on it.
struct Bucket {
  AllReduceOp op;
  int64_t bytes, needs;
  int64_t first; // where the earliest member stood

  bool fits(AllReduceOp other, int64_t otherNeeds, int64_t limit) {
    auto element = [](AllReduceOp reduce) { return graph::tensorType(reduce.getInputs()[0]).getElementType(); };
    // An all_reduce that reaches the limit alone is not combined: it runs in place, without being packed.
    return bytes < limit && bytesOf(other) < limit && needs == otherNeeds && op.getAxes() == other.getAxes() &&
           op.getKind() == other.getKind() && element(op) == element(other);
  }
};

/// Positions of the operations before any were combined. A combined operation has the position of its last member.
using Order = llvm::DenseMap<Operation *, int64_t>;

/// Whether `op` depends on `of`. Operations at positions before `first` depend on nothing that stands later.
bool dependsOn(Operation *op, Operation *of, int64_t first, const Order &order) {
  SmallVector<Operation *> work = {op};
  llvm::DenseSet<Operation *> seen;
  while (!work.empty()) {
    Operation *here = work.pop_back_val();
    if (here == of)
      return true;
    if (seen.insert(here).second)
      for (Value operand : here->getOperands())
        if (Operation *producer = operand.getDefiningOp(); producer && order.lookup(producer) >= first)
          work.push_back(producer);
  }
  return false;
}

/// Replaces two operations by one at the position of the second.
AllReduceOp combine(AllReduceOp first, AllReduceOp second) {
  OpBuilder builder(second);
  SmallVector<Value> inputs, results;
  for (AllReduceOp member : {first, second}) {
    llvm::append_range(inputs, member.getInputs());
    llvm::append_range(results, member.getResults());
  }
  auto combined = AllReduceOp::create(builder, builder.getFusedLoc({first.getLoc(), second.getLoc()}),
                                      TypeRange(ValueRange(inputs)), inputs, second.getKind(), second.getAxes());
  for (auto [old, result] : llvm::zip(results, combined.getResults()))
    old.replaceAllUsesWith(result);
  first.erase();
  second.erase();
  return combined;
}

/// Sorts operations by `position`, as far as their operands allow. mlir::sortTopologically would move an operation that
/// has to wait for an operand behind all others; here it follows its operand immediately.
void sortByPosition(Block &block, const Order &position) {
  auto later = [&](Operation *a, Operation *b) { return position.lookup(a) > position.lookup(b); };
  std::priority_queue<Operation *, std::vector<Operation *>, decltype(later)> ready(later);
  llvm::DenseMap<Operation *, size_t> missing; // operands that are not yet placed
  Operation *terminator = block.getTerminator();
  for (Operation &op : block.without_terminator()) {
    size_t count = llvm::count_if(op.getOperands(), [&](Value value) { return value.getDefiningOp(); });
    missing[&op] = count;
    if (count == 0)
      ready.push(&op);
  }
  while (!ready.empty()) {
    Operation *op = ready.top();
    ready.pop();
    op->moveBefore(terminator);
    for (Value result : op->getResults())
      for (Operation *user : result.getUsers()) // once for each use
        if (user != terminator && --missing[user] == 0)
          ready.push(user);
  }
}

struct BucketGradientsPass : impl::BucketGradientsPassBase<BucketGradientsPass> {
  using BucketGradientsPassBase::BucketGradientsPassBase;

  void runOnOperation() final {
    if (getOperation().isDeclaration())
      return;
    Block &block = getOperation().getBody().front();
    auto when = graph::whenNeeded(getOperation());
    Order order;
    for (Operation &op : block)
      order.try_emplace(&op, order.size());
    SmallVector<std::pair<AllReduceOp, int64_t>> all;
    SmallVector<bool> behindMessage; // by operation of `all`
    bool message = false;
    for (Operation &op : block) {
      message |= isa<dist::SendOp, dist::ReceiveOp>(op);
      if (auto reduce = dyn_cast<AllReduceOp>(op)) {
        all.push_back({reduce, when.lookup(reduce)});
        behindMessage.push_back(std::exchange(message, false));
      }
    }
    SmallVector<Bucket> buckets;
    // The users of a combined operation's early members now depend on an operation as late as its last member.
    int64_t firstCombined = order.size();
    for (auto [entry, behind] : llvm::zip(all, behindMessage)) {
      auto [op, when] = entry;
      if (behind) // messages in between may depend on the one and the other on them
        buckets.clear();
      auto fits = [&, op = op, when = when](Bucket &bucket) {
        return bucket.fits(op, when, bucketBytes) && !dependsOn(op, bucket.op, std::min(bucket.first, firstCombined), order);
      };
      if (auto *bucket = llvm::find_if(buckets, fits); bucket != buckets.end()) {
        bucket->bytes += bytesOf(op);
        int64_t last = order.lookup(op);
        order.erase(op);
        order.erase(bucket->op);
        bucket->op = combine(bucket->op, op);
        firstCombined = std::min(firstCombined, bucket->first);
        order[bucket->op] = last;
      } else {
        buckets.push_back({op, bytesOf(op), when, order.lookup(op)});
      }
    }
    sortByPosition(block, order); // users of a bucket's early members move behind it
  }
};
} // namespace
} // namespace divisi::partitioning
