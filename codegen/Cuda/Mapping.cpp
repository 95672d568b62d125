#include "codegen/Cuda/Mapping.h"

#include "step/Traffic.h"
#include "codegen/Lowering/ScalarBuilder.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::codegen;

namespace {
constexpr int64_t threadsOfElements = 256, threadsOfWarps = 128, threadsOfRow = 256;
/// From this number of points on, a row gets a whole block.
constexpr int64_t longRow = 1024;
/// From this number of points on, a reduction gets a warp.
constexpr int64_t longReduction = 64;
/// Blocks when they take rows in turn: more than run at a time on any current GPU.
constexpr int64_t blocksInTurn = 528;
/// Elements of a thread if there are enough for all threads, and the number that is enough.
constexpr int64_t vector = 4, manyElements = 1 << 16;

bool hasReduction(const Cluster &cluster) {
  return llvm::any_of(cluster.stages,
                      [](Operation *stage) { return cast<LoopInterface>(stage).getLoopDomain().hasReduction(); });
}
} // namespace

int64_t GpuMapping::blocks() const {
  return scratch ? std::min(count, blocksInTurn) : llvm::divideCeil(count, perBlock);
}

GpuMapping codegen::mapKernel(exec::KernelOp kernel, ArrayRef<Cluster> clusters, int64_t temporaryBytes) {
  using Kind = GpuMapping::Kind;
  GpuMapping mapping;
  int64_t rows = kernel.getRows(), most = 1;
  for (const Cluster &cluster : clusters)
    most = std::max(most, cluster.points);
  const Cluster &first = clusters.front();
  bool pointwise = clusters.size() == 1 && first.kind == Cluster::Kind::pass && !hasReduction(first);
  if (most == 1 || pointwise) {
    int64_t innermost = rows;
    for (int64_t extent : first.extents)
      if (most > 1 && extent != 1)
        innermost = extent;
    mapping.kind = Kind::elements;
    mapping.each = innermost % vector == 0 && rows * most >= manyElements ? vector : 1;
    mapping.count = rows * most / mapping.each;
    mapping.perBlock = threadsOfElements;
    return mapping;
  }
  if (clusters.size() == 1 && first.kind != Cluster::Kind::pass) {
    KeptAndReduced points = keptAndReduced(first, rows);
    bool inParts = llvm::all_of(first.stages, [](Operation *stage) { return stage->getNumResults() == 1; });
    bool wide = first.kind == Cluster::Kind::accumulatePerResult && inParts && points.reducedPoints >= longReduction;
    mapping.kind = Kind::results;
    mapping.count = rows * points.keptPoints;
    mapping.group = wide ? warp : 1;
    mapping.perBlock = threadsOfWarps / mapping.group;
    return mapping;
  }
  mapping.count = rows;
  mapping.group = most >= longRow ? threadsOfRow : warp;
  mapping.perBlock = mapping.group == warp ? threadsOfWarps / warp : 1;
  while (mapping.perBlock > 1 && mapping.perBlock * temporaryBytes > step::sharedBytes)
    mapping.perBlock /= 2;
  mapping.scratch = mapping.perBlock * temporaryBytes > step::sharedBytes;
  return mapping;
}

GpuMapping codegen::mapSerial(int64_t extent, int64_t rows) {
  GpuMapping mapping;
  extent = std::max<int64_t>(1, extent);
  mapping.kind = GpuMapping::Kind::serial;
  mapping.count = extent * std::clamp<int64_t>(manyElements / extent, 1, std::max<int64_t>(1, rows));
  mapping.perBlock = threadsOfWarps;
  return mapping;
}
