#pragma once
#include "codegen/Cuda/Mapping.h"
#include "codegen/Cuda/ThreadGroup.h"
#include "codegen/Emit/Elements.h"

namespace divisi::codegen {

/// Emits the code of a GPU's thread for a kernel: CudaKernel.cpp. How its points are visited: CudaPoints.cpp; how their
/// values are reduced: CudaReductions.cpp.
class CudaKernelEmitter : ElementEmitter {
public:
  using ElementEmitter::ElementEmitter;

  using ElementEmitter::addBuffers;
  using ElementEmitter::bind;

  /// Decides how threads share the work, and binds the kernel's values to arguments of the function.
  void plan(mlir::func::FuncOp function);
  int64_t blocks() const { return mapping.blocks(); }
  int64_t threads() const { return mapping.threads(); }
  /// Emits the code of a thread of a block. Thread indices are 32-bit, so that divisions of them are, too.
  void emitThread(mlir::Value blockNumber);
  /// Emits the kernel into the blocks [first, first + blocks()) of a launch of several kernels.
  void emitWithin(mlir::Value blockNumber, int64_t first);

private:
  mlir::Value toIndex(mlir::Value number);
  void emitScatter();
  /// Runs `then` on one thread of the piece's group.
  void once(llvm::function_ref<void()> then);
  mlir::Value word(int64_t value) { return s.integer(builder.getI32Type(), value); }
  /// Calls use(value, elements of a row, their type) for each materialized value of which a row is kept in memory.
  void forEachTemporary(llvm::function_ref<void(mlir::Value, int64_t, mlir::Type)> use);
  int64_t temporaryBytes();
  /// The indices of point `first` + `offset` of a nest, for `first` a multiple of `count` and `offset` less. The
  /// dimensions that the offset cannot change have the same indices for all offsets.
  Values indicesOf(mlir::Value first, int64_t offset, int64_t count, llvm::ArrayRef<int64_t> extents);
  /// Emits some consecutive elements.
  void emitElements(mlir::Value piece);
  /// Emits the elements of these numbers: first all loads and the arithmetic, then all stores, so that loads and stores
  /// can be vectorized. `find` sets the row of the i-th and returns its indices within the row, which has none if it is
  /// one element.
  void emitTogether(mlir::ValueRange numbers, llvm::function_ref<Values(int64_t i, mlir::Value linear)> find);
  Values zeros(const Cluster &cluster) { return Values(cluster.extents.size(), s.index(0)); }
  /// Emits all materialized values of a cluster at one point, which makes their elements known. A reduction has one
  /// step here. `linear`: the number of the point among those of all rows, if it is known.
  void emitPoint(const Cluster &cluster, mlir::ValueRange inner, mlir::Value linear, llvm::function_ref<void(mlir::Value, mlir::Value)> store);
  void emitRows(mlir::Value piece);
  void emitCluster(const Cluster &cluster);
  /// Shares the numbers below `count` out among the threads of the group; returns what each has accumulated.
  Values shareOut(int64_t count, mlir::ValueRange initial, llvm::function_ref<Values(mlir::Value, mlir::ValueRange)> body);
  /// The accumulators of a row's points, of which the threads take some consecutive ones in turn.
  Values emitPoints(const Cluster &cluster);
  /// Emits pointwise values and reductions of a whole row: the threads share the row's points.
  void emitPass(const Cluster &cluster);
  /// Emits reductions with several results in a row: each thread computes whole results.
  void emitKept(const Cluster &cluster);
  /// Emits one result of each reduction, by one thread, a warp or a block; or some consecutive ones by a thread.
  void emitResult(mlir::Value piece);
  /// Emits the `each` consecutive results of a row from `first` on, by one thread.
  void emitResultsOfThread(const Cluster &cluster, const KeptAndReduced &points, mlir::Value first, int64_t each);
  /// The initial accumulators of consecutive results.
  Values initialsTogether(const Cluster &cluster, int64_t each);
  /// One step of the `each` consecutive results from `first` on at a reduced point: the new accumulators.
  Values stepTogether(const Cluster &cluster, const KeptAndReduced &points, mlir::Value first, int64_t each,
                      mlir::ValueRange reduced, mlir::ValueRange accumulators);
  /// The accumulators of a cluster's reductions over all reduced points.
  Values reduce(const Cluster &cluster, const KeptAndReduced &points, mlir::ValueRange kept);
  /// The number of the element at a point of the reductions' loops, whose innermost indices are those that `indicesOf`
  /// returned for offset 0: a sum of multiples of the number of points together, as the loads' alignment needs it.
  mlir::Value numberOf(const Cluster &cluster, mlir::ValueRange inner);
  /// The same over this thread's share of the points: it takes some consecutive ones at a time.
  Values reduceTogether(const Cluster &cluster, const KeptAndReduced &points, mlir::ValueRange kept);
  /// The same where consecutive points, `mapping.run` of them, begin at any element: aligned pieces cover them, and
  /// what a piece has of other elements does not count.
  Values reduceRuns(const Cluster &cluster, const KeptAndReduced &points, mlir::ValueRange kept);
  /// Emits consecutive results of reductions along a dimension that is kept. The threads of a piece are in different
  /// warps.
  void emitColumns(mlir::Value piece, mlir::Value there);

  std::unique_ptr<ThreadGroup> threadGroup;
  GpuMapping mapping;
  llvm::SmallVector<Cluster> clusters;
  mlir::Value block, groupInBlock, lane;
  /// The innermost dimensions that consecutive points differ in: their points, and the number of the first one.
  struct Suffix {
    mlir::Value first;
    int64_t points = 1;
  } suffix;
};

} // namespace divisi::codegen
