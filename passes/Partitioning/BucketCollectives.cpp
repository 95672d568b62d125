#include "dialects/Dist/Buckets.h"
#include "dialects/Graph/WhenNeeded.h"
#include "passes/Partitioning/Passes.h"

using namespace mlir;

namespace divisi::partitioning {
#define GEN_PASS_DEF_BUCKETCOLLECTIVESPASS
#include "passes/Partitioning/Passes.h.inc"

using dist::AllGatherOp;
using dist::AllReduceOp;
using dist::ReduceScatterOp;

namespace {

/// Whether an all_gather is of state: ahead of its use, or what the step renews. Users of others wait for them.
bool isOfState(AllGatherOp gather) {
  return gather->hasAttr(dist::names::layer) || llvm::all_of(gather->getUsers(), [](Operation *user) {
           auto next = dyn_cast<AllGatherOp>(user);
           return next ? isOfState(next) : user->hasTrait<OpTrait::IsTerminator>();
         });
}

/// Replaces collectives of one kind by one at the position of the last.
Operation *combine(ArrayRef<Operation *> members) {
  OpBuilder builder(members.back());
  SmallVector<Value> inputs, results;
  SmallVector<int64_t> dims;
  SmallVector<Location> locations;
  for (Operation *member : members) {
    llvm::append_range(inputs, member->getOperands());
    llvm::append_range(results, member->getResults());
    if (auto gather = dyn_cast<AllGatherOp>(member))
      dims.push_back(gather.getDim());
    if (auto scatter = dyn_cast<ReduceScatterOp>(member))
      dims.push_back(scatter.getDim());
    locations.push_back(member->getLoc());
  }
  Location loc = builder.getFusedLoc(locations);
  TypeRange types{ValueRange(results)};
  Operation *combined = nullptr;
  if (auto reduce = dyn_cast<AllReduceOp>(members.back()))
    combined = AllReduceOp::create(builder, loc, types, inputs, reduce.getKind(), reduce.getAxes());
  else if (auto scatter = dyn_cast<ReduceScatterOp>(members.back()))
    combined = dist::ReduceScattersOp::create(builder, loc, types, inputs, scatter.getKind(), dims, scatter.getAxes());
  else
    combined =
        dist::AllGathersOp::create(builder, loc, types, inputs, dims, cast<AllGatherOp>(members.back()).getAxes());
  if (Attribute layer = members.back()->getAttr(dist::names::layer))
    combined->setAttr(dist::names::layer, layer);
  for (auto [old, result] : llvm::zip(results, combined->getResults()))
    old.replaceAllUsesWith(result);
  for (Operation *member : members)
    member->erase();
  return combined;
}

struct BucketCollectivesPass : impl::BucketCollectivesPassBase<BucketCollectivesPass> {
  using BucketCollectivesPassBase::BucketCollectivesPassBase;

  void runOnOperation() final {
    if (getOperation().isDeclaration())
      return;
    Block &block = getOperation().getBody().front();
    auto partitioned = getOperation()->getAttrOfType<dist::MeshAttr>(dist::names::partitioned);
    mesh = partitioned ? dist::toMesh(partitioned) : dist::Mesh();
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
      auto collective = describe(&op, when.lookup(&op));
      items[&op] = collective ? buckets.add(operands, *collective) : buckets.add(operands);
      ops.push_back(&op);
    }
    SmallVector<int64_t> positions; // of the operations that are left
    SmallVector<Operation *> left;
    for (auto [item, op] : llvm::enumerate(ops)) {
      Operation *here = op;
      if (int bucket = buckets.bucketOf(item); bucket >= 0) {
        if (buckets.members(bucket).back() != (int)item)
          continue;
        SmallVector<Operation *> members;
        for (int member : buckets.members(bucket))
          members.push_back(ops[member]);
        here = combine(members);
      }
      left.push_back(here);
      positions.push_back(item);
    }
    if (left.size() < ops.size()) // users of a bucket's early members move behind it
      sort(block, left, positions);
  }

private:
  /// What decides with which others an operation is combined; none: it is never combined.
  std::optional<step::Collective> describe(Operation *op, int64_t when) {
    step::Collective collective;
    ArrayAttr axes;
    if (auto reduce = dyn_cast<AllReduceOp>(op)) {
      axes = reduce.getAxes();
      collective.kind = (dist::Reduction)reduce.getKind();
    } else if (auto scatter = dyn_cast<ReduceScatterOp>(op)) {
      axes = scatter.getAxes();
      collective.type = step::Collective::Type::reduceScatter;
      collective.kind = (dist::Reduction)scatter.getKind();
    } else if (auto gather = dyn_cast<AllGatherOp>(op); gather && isOfState(gather)) {
      axes = gather.getAxes();
      collective.type = step::Collective::Type::allGather;
      if (auto layer = op->getAttrOfType<IntegerAttr>(dist::names::layer))
        collective.layer = layer.getInt();
    } else {
      return std::nullopt;
    }
    collective.members = 1;
    for (auto axis : axes.getAsRange<StringAttr>()) {
      if (auto position = mesh.find(axis.getValue())) {
        collective.axes.push_back(*position);
        collective.members *= mesh.axes[*position].size;
      }
    }
    collective.element = numberOf(graph::tensorType(op->getOperand(0)).getElementType().getAsOpaquePointer());
    collective.when = when;
    const bool gathers = collective.type == step::Collective::Type::allGather;
    for (Type type : gathers ? TypeRange(op->getResultTypes()) : TypeRange(op->getOperandTypes()))
      collective.bytes += graph::bytesOf(type);
    return collective;
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

  dist::Mesh mesh;
  llvm::DenseMap<const void *, int> numbers; // of element types
};
} // namespace
} // namespace divisi::partitioning
