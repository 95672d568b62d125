#include "codegen/Emit/Clusters.h"

#include "codegen/Kernels/RowSets.h"
#include "codegen/Lowering/ScalarBuilder.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::codegen;

int64_t codegen::leadingRank(ArrayRef<int64_t> shape, int64_t rows) {
  int64_t product = 1, rank = 0;
  while (product < rows && rank < (int64_t)shape.size())
    product *= shape[rank++];
  return rank;
}

static Cluster clusterOf(Operation *stage, int64_t rows) {
  LoopDomain domain = cast<LoopInterface>(stage).getLoopDomain();
  int64_t leading = leadingRank(domain.extents, rows);
  Cluster cluster;
  cluster.stages = {stage};
  cluster.extents.assign(domain.extents.begin() + leading, domain.extents.end());
  bool anyReduced = false, anyKept = false, keptAfterReduced = false;
  for (size_t d = leading; d < domain.extents.size(); ++d) {
    cluster.points *= domain.extents[d];
    if (domain.extents[d] == 1)
      continue;
    keptAfterReduced |= !domain.reduced[d] && anyReduced;
    (domain.reduced[d] ? anyReduced : anyKept) = true;
  }
  if (domain.hasReduction() && (anyKept || stage->getNumResults() > 1))
    cluster.kind = keptAfterReduced ? Cluster::Kind::accumulateInMemory : Cluster::Kind::accumulatePerResult;
  return cluster;
}

/// Whether `op` (a materialized value, or recomputed for one) reads a materialized value of the cluster at another
/// point than its own.
static bool readsElsewhere(Operation *op, const Cluster &cluster, bool samePoint, Operation *root) {
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    Operation *producer = operand.getDefiningOp();
    if (!producer)
      continue;
    bool same = samePoint;
    auto type = cast<RankedTensorType>(operand.getType());
    if (op == root && cast<LoopInterface>(op).getLoopDomain().hasReduction())
      same = cast<LoopInterface>(op).getLoopDomain().extents == llvm::to_vector(type.getShape());
    else
      same = same && rowsThrough(op, i).back() == type.getNumElements();
    if (llvm::is_contained(cluster.stages, producer)) {
      if (!same || cast<LoopInterface>(producer).getLoopDomain().hasReduction())
        return true;
    } else if (!producer->hasAttr(exec::names::stage) && readsElsewhere(producer, cluster, same, root)) {
      return true;
    }
  }
  return false;
}

static SmallVector<int64_t> withoutOnes(ArrayRef<int64_t> extents) {
  SmallVector<int64_t> result;
  for (int64_t extent : extents)
    if (extent != 1)
      result.push_back(extent);
  return result;
}

static bool joins(const Cluster &cluster, const Cluster &stage) {
  if (cluster.kind != stage.kind)
    return false;
  if (cluster.kind != Cluster::Kind::pass) {
    LoopDomain a = cast<LoopInterface>(cluster.stages[0]).getLoopDomain();
    LoopDomain b = cast<LoopInterface>(stage.stages[0]).getLoopDomain();
    if (a.extents != b.extents || a.reduced != b.reduced)
      return false;
  }
  return withoutOnes(cluster.extents) == withoutOnes(stage.extents) &&
         !readsElsewhere(stage.stages[0], cluster, true, stage.stages[0]);
}

SmallVector<Cluster> codegen::formClusters(exec::KernelOp kernel) {
  SmallVector<Cluster> clusters;
  for (Operation &op : kernel.getBody().front())
    if (op.hasAttr(exec::names::stage)) {
      Cluster stage = clusterOf(&op, kernel.getRows());
      if (!clusters.empty() && joins(clusters.back(), stage))
        clusters.back().stages.push_back(&op);
      else
        clusters.push_back(stage);
    }
  return clusters;
}

KeptAndReduced codegen::keptAndReduced(const Cluster &cluster, int64_t rows) {
  LoopDomain domain = cast<LoopInterface>(cluster.stages[0]).getLoopDomain();
  KeptAndReduced result;
  for (size_t d = leadingRank(domain.extents, rows); d < domain.extents.size(); ++d) {
    (domain.reduced[d] ? result.reduced : result.kept).push_back(domain.extents[d]);
    (domain.reduced[d] ? result.reducedPoints : result.keptPoints) *= domain.extents[d];
  }
  return result;
}
