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

/// A bucket is one operation all the time, so that what depends on it is what the IR says.
struct Bucket {
  AllReduceOp op;
  int64_t bytes, needs;
  int64_t first; // where the earliest member stood

  bool fits(AllReduceOp other, int64_t otherNeeds, int64_t limit) {
    auto element = [](AllReduceOp reduce) { return graph::tensorType(reduce.getInputs()[0]).getElementType(); };
    // What fills a bucket alone travels alone: from where it lies, without being packed.
    return bytes < limit && bytesOf(other) < limit && needs == otherNeeds && op.getAxes() == other.getAxes() &&
           op.getKind() == other.getKind() && element(op) == element(other);
  }
};

/// Positions of operations as they were before any were combined; of a combined one, that of its last member.
using Order = llvm::DenseMap<Operation *, int64_t>;

/// Whether computing `op` needs a result of `of`. Operations before `first` need none that stand later.
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

/// One operation in the place of the second.
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

/// Every operation as early as its operands allow, otherwise in the order of `position`: unlike
/// mlir::sortTopologically, what waits for an operand follows that at once and does not fall behind the rest.
void sortByPosition(Block &block, const Order &position) {
  auto later = [&](Operation *a, Operation *b) { return position.lookup(a) > position.lookup(b); };
  std::priority_queue<Operation *, std::vector<Operation *>, decltype(later)> ready(later);
  llvm::DenseMap<Operation *, size_t> missing; // operands that are not there yet
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
    // What needs an early member of a combined operation needs what stands as late as its last one.
    int64_t firstCombined = order.size();
    for (auto [entry, behind] : llvm::zip(all, behindMessage)) {
      auto [op, when] = entry;
      if (behind) // what stages tell each other in between may depend on the one, and the other on it
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
    sortByPosition(block, order); // what needs an early member of a bucket moves behind it
  }
};
} // namespace
} // namespace divisi::partitioning
