#include "codegen/Cuda/Mapping.h"

#include "codegen/Kernels/RowSets.h"
#include "codegen/Lowering/ScalarBuilder.h"
#include "step/Traffic.h"

#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::codegen;

namespace {
constexpr int64_t threadsOfElements = 256, threadsOfWarps = 128, threadsOfRow = 256;
/// From this number of points on, a row gets a whole block; where there are rows for that many warps, only from twice as many on. (On an
/// H100, layer norm and softmax of 65,536 rows of 1,024 numbers take 12 % less time with warps, rows of 2,048 as much, of 4,096 twice as much.)
constexpr int64_t longRow = 1024, manyRows = 1 << 12;
/// From this number of points on, a reduction gets a warp.
constexpr int64_t longReduction = 64;
/// Blocks when they take rows in turn: more than run at a time on any current GPU.
constexpr int64_t blocksInTurn = 528;
/// Elements of a thread if there are enough for all threads, for a load of 16 bytes of 32 and of 16 bits each; and the
/// number of elements that is enough.
constexpr int64_t vector = 4, narrowVector = 8, manyElements = 1 << 16;
/// With more large operands than this a thread keeps fewer elements of each.
constexpr int64_t manyOperands = 6;
/// Pieces that a thread has of rows apart, where the bytes of an element that rows share are this many times its own.
constexpr int64_t apart = 2, muchShared = 4, veryManyElements = 1 << 20;
/// From this number of points on, a reduction gets a block. Consecutive points that are reduced, at least, so that a
/// warp reads consecutive elements; and so that aligned pieces, which have other elements at both ends, read few
/// others.
constexpr int64_t hugeReduction = 8192, shortRun = 8, runOfPieces = 16;
/// The threads that share the points of columns, and the pieces of a block; where blocks are fewer than the
/// multiprocessors of a large GPU, up to a warp shares each, if every thread has this number of points.
constexpr int64_t partsOfColumns = 8, columnsOfBlock = 32, fewBlocks = 132, pointsOfThread = 2;

bool hasReduction(const Cluster &cluster) {
  return llvm::any_of(cluster.stages,
                      [](Operation *stage) { return cast<LoopInterface>(stage).getLoopDomain().hasReduction(); });
}

/// The elements that a thread computes together, at most: those of 16 bytes of the narrowest large operand or result.
int64_t widest(exec::KernelOp kernel, int64_t elements) {
  int64_t large = 0;
  bool narrow = false;
  auto look = [&](Type type) {
    auto tensor = cast<RankedTensorType>(type);
    if (2 * tensor.getNumElements() < elements)
      return;
    ++large;
    narrow |= tensor.getElementTypeBitWidth() <= 16;
  };
  llvm::for_each(kernel->getOperandTypes(), look);
  llvm::for_each(kernel->getResultTypes(), look);
  return narrow && large <= manyOperands ? narrowVector : vector;
}

/// The largest power of two up to `most` that divides a number.
int64_t dividing(int64_t number, int64_t most) {
  while (number % most != 0)
    most /= 2;
  return most;
}

/// The innermost consecutive dimensions of a reduction that are all reduced or all kept.
struct Run {
  bool reduced = false;
  int64_t points = 1;
};
Run innermostRun(const Cluster &cluster, int64_t rows) {
  LoopDomain domain = cast<LoopInterface>(cluster.stages[0]).getLoopDomain();
  Run run;
  for (size_t d = domain.extents.size(); d-- > (size_t)leadingRank(domain.extents, rows);) {
    if (domain.extents[d] == 1)
      continue;
    if (run.points > 1 && domain.reduced[d] != run.reduced)
      break;
    run.reduced = domain.reduced[d];
    run.points *= domain.extents[d];
  }
  return run;
}

/// Whether each value of a cluster has one result.
bool inParts(const Cluster &cluster) {
  return llvm::all_of(cluster.stages, [](Operation *stage) { return stage->getNumResults() == 1; });
}

/// Whether stages, or what is computed for them, read a value of this size in another order than its own.
bool readInOtherOrder(ArrayRef<Operation *> stages, int64_t elements) {
  SmallVector<Operation *> todo(stages);
  llvm::SmallPtrSet<Operation *, 16> seen(stages.begin(), stages.end());
  while (!todo.empty()) {
    Operation *op = todo.pop_back_val();
    for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
      if (graph::tensorType(operand).getNumElements() != elements)
        continue;
      if (rowsThrough(op, i).back() != elements)
        return true;
      Operation *producer = operand.getDefiningOp();
      if (producer && !producer->hasAttr(exec::names::stage) && seen.insert(producer).second)
        todo.push_back(producer);
    }
  }
  return false;
}

/// Pieces of a transposition whose innermost rows are short and of no power of two, such as those of images with three
/// channels: several whole rows, so that what is read along the dimension before them is a load. 0: it is none.
int64_t piecesOfRows(const Cluster &cluster, int64_t elements) {
  size_t rank = cluster.extents.size();
  int64_t row = rank < 2 ? 1 : cluster.extents[rank - 1];
  if (row >= narrowVector || llvm::isPowerOf2_64(row) || cluster.extents[rank - 2] % vector != 0)
    return 0;
  return readInOtherOrder(cluster.stages, elements) ? vector * row : 0;
}

/// Where rows have this number of points: pieces that divide a row, if there are any of 16 bytes.
int64_t elementsOfPiece(exec::KernelOp kernel, const Cluster &cluster) {
  int64_t points = cluster.points, all = kernel.getRows() * points, most = widest(kernel, all);
  if (all < manyElements)
    return 1;
  if (int64_t rows = piecesOfRows(cluster, all))
    return rows;
  int64_t each = points == 1 ? 1 : dividing(points, most);
  return each >= vector ? each : dividing(all, points >= longRow ? most : vector);
}

/// The number of rows of which a thread has a piece each, where rows share so much (statistics and weights of channels)
/// that it would take longer to read than what is their own: the thread reads it once.
int64_t rowsApart(exec::KernelOp kernel, int64_t points, int64_t each) {
  int64_t rows = kernel.getRows(), shared = 0, own = 0;
  auto look = [&](Type type) {
    auto tensor = cast<RankedTensorType>(type);
    int64_t bytes = graph::bytesOfElement(tensor.getElementType());
    shared += tensor.getNumElements() == points ? bytes : 0;
    own += tensor.getNumElements() == rows * points ? bytes : 0;
  };
  llvm::for_each(kernel->getOperandTypes(), look);
  llvm::for_each(kernel->getResultTypes(), look);
  bool many = rows * points >= veryManyElements && points % each == 0;
  return many && rows % apart == 0 && shared >= muchShared * own ? apart : 1;
}

GpuMapping mapReduction(exec::KernelOp kernel, const Cluster &cluster) {
  using Kind = GpuMapping::Kind;
  int64_t rows = kernel.getRows();
  KeptAndReduced points = keptAndReduced(cluster, rows);
  Run run = innermostRun(cluster, rows);
  int64_t most = widest(kernel, rows * cluster.points);
  GpuMapping mapping;
  mapping.kind = Kind::results;
  mapping.count = rows * points.keptPoints;
  mapping.perBlock = threadsOfWarps;
  if (!inParts(cluster) || points.reducedPoints < longReduction) {
    mapping.each = mapping.count >= manyElements ? resultsTogether(kernel, cluster, 1) : 1;
    mapping.count /= mapping.each;
    return mapping;
  }
  if (run.reduced && (run.points >= shortRun || cluster.kind == Cluster::Kind::accumulatePerResult)) {
    mapping.group = points.reducedPoints >= hugeReduction ? threadsOfRow : warp;
    mapping.perBlock = mapping.group == warp ? threadsOfWarps / warp : 1;
    mapping.each = dividing(run.points, most);
    while (mapping.each > 1 && points.reducedPoints < mapping.each * mapping.group)
      mapping.each /= 2;
    if (mapping.each < vector && run.points >= runOfPieces && run.points % vector != 0 &&
        points.reducedPoints >= vector * mapping.group && rows * cluster.points % vector == 0) {
      mapping.each = vector;
      mapping.run = run.points;
    }
    return mapping;
  }
  // Each thread's sums meet in memory that the threads of a block share.
  int64_t each = dividing(run.points, vector);
  auto fit = [&] {
    return each * partsOfColumns * columnsOfBlock * 8 * (int64_t)cluster.stages.size() <= step::sharedBytes;
  };
  while (each > 1 && !fit())
    each /= 2;
  if (run.reduced || !fit())
    return mapping;
  mapping.kind = Kind::columns;
  mapping.each = each;
  mapping.count /= each;
  mapping.group = partsOfColumns;
  mapping.perBlock = columnsOfBlock;
  while (mapping.group < warp && mapping.blocks() < fewBlocks &&
         points.reducedPoints >= 2 * pointsOfThread * mapping.group) {
    mapping.group *= 2;
    mapping.perBlock /= 2;
  }
  return mapping;
}
} // namespace

/// Threads for each row if a warp has several: as many as have an element load each. All threads of a warp have a row.
static int64_t threadsOfShortRow(int64_t rows, int64_t points, int64_t temporaryBytes) {
  int64_t threads = std::clamp<int64_t>(llvm::PowerOf2Ceil(llvm::divideCeil(points, vector)), vector, warp);
  bool fit = threadsOfWarps / threads * temporaryBytes <= step::sharedBytes;
  return fit && rows % (warp / threads) == 0 ? threads : warp;
}

int64_t codegen::elementsTogether(exec::KernelOp kernel, const Cluster &cluster, int64_t threads, bool keepsMemory) {
  int64_t points = cluster.points, most = keepsMemory ? vector : widest(kernel, kernel.getRows() * points), each = most;
  while (each > 1 && (points % each != 0 || points < each * threads))
    each /= 2;
  if (threads < warp) // short rows: the loads of all rounds are on their way at a time
    return each;
  // Where rows do not begin where a load may, their ends are one round more. A quarter of the threads has pieces.
  auto rounds = [&](int64_t together) { return llvm::divideCeil(points, together * threads); };
  for (int64_t wide = most; each < vector && wide >= vector; wide /= 2)
    if (4 * points >= wide * threads && rounds(wide) + 1 <= rounds(each))
      return wide;
  return each;
}

int64_t codegen::resultsTogether(exec::KernelOp kernel, const Cluster &cluster, int64_t threads) {
  Run run = innermostRun(cluster, kernel.getRows());
  if (run.reduced)
    return 1;
  unsigned width = graph::tensorType(cluster.stages[0]->getResult(0)).getElementTypeBitWidth();
  int64_t each = dividing(run.points, width > 32 ? vector / 2 : vector);
  return keptAndReduced(cluster, kernel.getRows()).keptPoints >= each * threads ? each : 1;
}

int64_t GpuMapping::blocks() const {
  return scratch ? std::min(count, blocksInTurn) : llvm::divideCeil(count, perBlock);
}

GpuMapping codegen::mapKernel(exec::KernelOp kernel, ArrayRef<Cluster> clusters, int64_t temporaryBytes) {
  using Kind = GpuMapping::Kind;
  GpuMapping mapping;
  int64_t rows = kernel.getRows(), most = 1, pieces = 1; // pieces: what the threads of a row share
  for (const Cluster &cluster : clusters) {
    most = std::max(most, cluster.points);
    bool ofResults = cluster.kind != Cluster::Kind::pass && rows >= fewBlocks * warp; // else threads are few anyway
    pieces = std::max(pieces, ofResults ? keptAndReduced(cluster, rows).keptPoints : cluster.points);
  }
  const Cluster &first = clusters.front();
  bool pointwise = clusters.size() == 1 && first.kind == Cluster::Kind::pass && !hasReduction(first);
  if (most == 1 || pointwise) {
    mapping.kind = Kind::elements;
    mapping.each = elementsOfPiece(kernel, first);
    mapping.apart = rowsApart(kernel, most, mapping.each);
    mapping.count = rows * most / mapping.each / mapping.apart;
    mapping.perBlock = threadsOfElements;
    return mapping;
  }
  if (clusters.size() == 1 && first.kind != Cluster::Kind::pass)
    return mapReduction(kernel, first);
  mapping.count = rows;
  bool isLong = pieces >= (rows >= manyRows ? 2 * longRow : longRow);
  mapping.group = isLong ? threadsOfRow : threadsOfShortRow(rows, pieces, temporaryBytes);
  mapping.perBlock = std::max<int64_t>(1, threadsOfWarps / mapping.group);
  while (mapping.perBlock > 1 && mapping.perBlock * temporaryBytes > step::sharedBytes)
    mapping.perBlock /= 2;
  mapping.scratch = mapping.perBlock * temporaryBytes > step::sharedBytes;
  return mapping;
}

/// A thread has some columns of every row that its group adds to; all blocks read all indices.
static GpuMapping mapScatter(graph::ScatterAddOp op) {
  ArrayRef<int64_t> shape = graph::shapeOf(op.getX());
  int64_t dim = op.getDim(), columns = llvm::product_of(shape.drop_front(dim + 1));
  GpuMapping mapping;
  mapping.kind = GpuMapping::Kind::scatter;
  // At most 16 bytes: updates of several rows are in registers together.
  int64_t bytes = graph::bytesOfElement(graph::tensorType(op.getX()).getElementType());
  mapping.each = dividing(columns, std::min<int64_t>(vector, 4 * vector / bytes));
  mapping.group = std::min<int64_t>(threadsOfRow, llvm::PowerOf2Ceil(columns / mapping.each));
  mapping.perBlock = threadsOfRow / mapping.group;
  int64_t others = llvm::product_of(shape.take_front(dim)) * llvm::divideCeil(columns / mapping.each, mapping.group);
  int64_t rows = llvm::divideCeil(shape[dim], std::clamp<int64_t>(blocksInTurn / others, 1, shape[dim]));
  mapping.parts = llvm::divideCeil(shape[dim], rows);
  mapping.count = others * mapping.parts * mapping.perBlock;
  return mapping;
}

GpuMapping codegen::mapSerial(Operation *op) {
  if (auto scatter = dyn_cast<graph::ScatterAddOp>(op))
    return mapScatter(scatter);
  GpuMapping mapping;
  mapping.kind = GpuMapping::Kind::serial;
  mapping.count = std::max<int64_t>(1, cast<SerialInterface>(op).getParallelExtent());
  mapping.perBlock = threadsOfWarps;
  return mapping;
}
