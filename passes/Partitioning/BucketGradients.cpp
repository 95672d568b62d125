#include "passes/Partitioning/Passes.h"

using namespace mlir;

namespace divisi::partitioning {
#define GEN_PASS_DEF_BUCKETGRADIENTSPASS
#include "passes/Partitioning/Passes.h.inc"

using dist::AllReduceOp;

namespace {

struct Bucket {
  SmallVector<AllReduceOp> members;
  int64_t bytes = 0;

  static int64_t bytesOf(AllReduceOp op) {
    int64_t bytes = 0;
    for (Value input : op.getInputs())
      bytes += graph::bytesOf(input.getType());
    return bytes;
  }
  bool fits(AllReduceOp op, int64_t limit) const {
    AllReduceOp first = members.front();
    auto element = [](AllReduceOp reduce) { return graph::tensorType(reduce.getInputs()[0]).getElementType(); };
    return bytes < limit && op.getAxes() == first.getAxes() && op.getKind() == first.getKind() &&
           element(op) == element(first);
  }
  /// Whether somebody needs a member's result before `op`, or to compute it.
  bool isNeededBefore(Operation *op) const {
    for (AllReduceOp member : members)
      for (Operation *user : member->getUsers())
        if (user->isBeforeInBlock(op))
          return true;
    return false;
  }
};

struct BucketGradientsPass : impl::BucketGradientsPassBase<BucketGradientsPass> {
  using BucketGradientsPassBase::BucketGradientsPassBase;

  void runOnOperation() final {
    if (getOperation().isDeclaration())
      return;
    SmallVector<Bucket> open;
    for (auto op : getOperation().getBody().front().getOps<AllReduceOp>()) {
      bool placed = false;
      for (Bucket &bucket : open)
        if (!placed && bucket.fits(op, bucketBytes) && !bucket.isNeededBefore(op)) {
          bucket.members.push_back(op);
          bucket.bytes += Bucket::bytesOf(op);
          placed = true;
        }
      if (!placed)
        open.push_back({{op}, Bucket::bytesOf(op)});
    }
    for (Bucket &bucket : open)
      if (bucket.members.size() > 1)
        combine(bucket);
  }

private:
  static void combine(const Bucket &bucket) {
    AllReduceOp last = bucket.members.back();
    OpBuilder builder(last);
    SmallVector<Value> inputs, results;
    SmallVector<Location> locations;
    for (AllReduceOp member : bucket.members) {
      llvm::append_range(inputs, member.getInputs());
      llvm::append_range(results, member.getResults());
      locations.push_back(member.getLoc());
    }
    auto combined = AllReduceOp::create(builder, builder.getFusedLoc(locations), TypeRange(ValueRange(inputs)), inputs,
                                        last.getKind(), last.getAxes());
    for (auto [old, result] : llvm::zip(results, combined.getResults()))
      old.replaceAllUsesWith(result);
    for (AllReduceOp member : bucket.members)
      member.erase();
  }
};
} // namespace
} // namespace divisi::partitioning
