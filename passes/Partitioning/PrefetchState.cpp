#include "dialects/Dist/Buckets.h"
#include "passes/Partitioning/Passes.h"
#include "step/Prefetch.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace divisi::partitioning {
#define GEN_PASS_DEF_PREFETCHSTATEPASS
#include "passes/Partitioning/Passes.h.inc"

using dist::AllGatherOp;

namespace {

/// An all_gather for one use of state.
AllGatherOp gatherForUse(Operation *op) {
  auto gather = dyn_cast_if_present<AllGatherOp>(op);
  return gather && gather->hasAttr(dist::names::use) ? gather : AllGatherOp();
}

/// Whether a value is state, or is made of arguments alone, without other devices. Adds what makes it, in its order.
bool isLocal(Value value, llvm::SetVector<Operation *> &makers) {
  Operation *op = value.getDefiningOp();
  if (!op || makers.contains(op))
    return true;
  if (isa_and_present<dist::DistDialect>(op->getDialect()) || op->getNumRegions() > 0 ||
      !llvm::all_of(op->getOperands(), [&](Value operand) { return isLocal(operand, makers); }))
    return false;
  makers.insert(op);
  return true;
}

/// The gathers that make a value of the shards of a state, or of what is made of it (weights in 16 bits), one after the other; none if it is made otherwise, or
/// is not what the user reads.
SmallVector<AllGatherOp> gathersOf(AllGatherOp last, llvm::SetVector<Operation *> &makers) {
  SmallVector<AllGatherOp> gathers;
  if (last->use_empty() || llvm::any_of(last->getUsers(), [](Operation *user) {
        return isa_and_present<dist::DistDialect>(user->getDialect());
      }))
    return {};
  Value value = last.getResult();
  while (AllGatherOp gather = gatherForUse(value.getDefiningOp())) {
    if (gather != last && !value.hasOneUse())
      return {};
    gathers.push_back(gather);
    value = gather.getInput();
  }
  if (!isLocal(value, makers))
    return {};
  std::reverse(gathers.begin(), gathers.end());
  return gathers;
}

struct PrefetchStatePass : impl::PrefetchStatePassBase<PrefetchStatePass> {
  using PrefetchStatePassBase::PrefetchStatePassBase;

  void runOnOperation() final {
    if (getOperation().isDeclaration())
      return;
    SmallVector<Operation *> ops;
    llvm::DenseMap<Operation *, int64_t> positions;
    for (Operation &op : getOperation().getBody().front()) {
      positions[&op] = ops.size();
      ops.push_back(&op);
    }
    struct Fetch {
      SmallVector<AllGatherOp> gathers;
      llvm::SetVector<Operation *> makers; // of the shard
      int64_t user;
    };
    std::vector<Fetch> fetches;
    for (Operation *op : ops)
      if (AllGatherOp last = gatherForUse(op)) {
        llvm::SetVector<Operation *> makers;
        if (SmallVector<AllGatherOp> gathers = gathersOf(last, makers); !gathers.empty()) {
          int64_t first = ops.size();
          for (Operation *user : last->getUsers())
            first = std::min(first, positions.lookup(user));
          fetches.push_back({std::move(gathers), std::move(makers), first});
        }
      }
    llvm::stable_sort(fetches, [](const Fetch &a, const Fetch &b) { return a.user < b.user; });
    auto bytesOf = [](const Fetch &fetch) -> int64_t {
      return graph::bytesOf(AllGatherOp(fetch.gathers.back()).getType());
    };
    int64_t all = 0;
    for (const Fetch &fetch : fetches)
      all += bytesOf(fetch);
    step::Prefetch rule(bucketBytes);
    rule.begin(all);
    llvm::DenseMap<Value, int64_t> states;
    for (Fetch &fetch : fetches) {
      const int64_t state = states.try_emplace(fetch.gathers.front().getInput(), states.size()).first->second;
      const int layer = rule.add({state, fetch.user, bytesOf(fetch)});
      Operation *start = ops[rule.startOf(layer)];
      for (Operation *maker : fetch.makers)
        if (start->isBeforeInBlock(maker))
          maker->moveBefore(start);
      for (AllGatherOp gather : fetch.gathers) {
        gather->setAttr(dist::names::layer, Builder(gather).getI64IntegerAttr(layer));
        gather->moveBefore(start);
      }
    }
  }
};
} // namespace
} // namespace divisi::partitioning
