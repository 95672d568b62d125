#pragma once
#include "codegen/Emit/Clusters.h"
#include "codegen/Lowering/ScalarBuilder.h"
#include "dialects/Graph/Graph.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <map>

namespace divisi::codegen {

/// What emitters of kernels share, whatever runs the loops: where values of a kernel lie, and the code for an element
/// of one at an index, which is loaded, known or computed.
class ElementEmitter {
public:
  ElementEmitter(mlir::OpBuilder &builder, exec::KernelOp kernel)
      : kernel(kernel), builder(builder), s(builder, kernel.getLoc()), body(kernel.getBody().front()),
        rows(kernel.getRows()) {}

protected:
  using Value = mlir::Value;
  using ValueRange = mlir::ValueRange;
  using Values = llvm::SmallVector<Value>;
  ~ElementEmitter() = default;

  /// Makes the kernel's function: an argument for each distinct buffer, then `more`. `buffers` says for each input and
  /// then each output in which buffer it lies. Appends to `values`, for each buffer, the first value in it.
  mlir::func::FuncOp declare(llvm::StringRef name, llvm::ArrayRef<int64_t> buffers, llvm::ArrayRef<mlir::Type> more,
                             llvm::SmallVectorImpl<unsigned> &values);
  /// Appends the types of the distinct buffers, and values as `declare` does.
  void addBuffers(llvm::ArrayRef<int64_t> buffers, llvm::SmallVectorImpl<mlir::Type> &types,
                  llvm::SmallVectorImpl<unsigned> &values);
  /// Where the kernel's values lie: the arguments of a function from `first` on.
  void bind(mlir::func::FuncOp function, unsigned first);

  /// The stage that runs in a fixed order, if the kernel is one.
  mlir::Operation *serialStage();
  /// Its loops over [begin, end) of its parallel extent.
  void emitSerialLoops(mlir::Operation *op, const SerialPiece &piece);

  /// The index of this row's first dimensions.
  Values rowIndex(llvm::ArrayRef<int64_t> shape) {
    return s.delinearize(row, shape.take_front(leadingRank(shape, rows)));
  }
  /// The full point of a stage's domain for the loop indices of a cluster with the same extents but for ones.
  Values pointOf(const LoopDomain &domain, ValueRange inner, const Cluster &cluster);
  /// One point of a stage: its elements, or its new accumulators.
  Values step(mlir::Operation *stage, ValueRange point, ValueRange accumulators);

  /// The accumulators of a cluster's reductions before the first step.
  Values initials(const Cluster &cluster);
  /// A step of all stages of a cluster that only reduces, at the indices of its loops: the new accumulators.
  Values stepAll(const Cluster &cluster, ValueRange inner, ValueRange accumulators);
  /// A point of a cluster of the kind pass: pointwise stages are stored where they lie in memory, at the row's element
  /// that `linear` gives. The new accumulators of the reductions.
  Values passPoint(const Cluster &cluster, ValueRange inner, ValueRange accumulators,
                   llvm::function_ref<Value()> linear);
  /// Stores the results of a cluster's stages, all in one list, that lie in memory at an element of the row.
  void storeResults(const Cluster &cluster, llvm::ArrayRef<Value> elements, Value linear);
  /// The indices of a cluster's loops within a row, of which `kept` and `reduced` are.
  Values mergeIndices(const Cluster &cluster, ValueRange kept, ValueRange reduced);

  /// The element of a value at an index.
  Value resolve(Value value, ValueRange index);

  bool isInMemory(Value value) const { return buffer.count(value) || temporary.count(value); }
  /// Stores into this row of a value, `linear` counting the row's elements.
  void storeAt(Value value, Value element, Value linear);
  Value loadAt(Value value, Value linear);
  /// Computed elements are forgotten: another point, or another row, follows.
  void forget() {
    memo.clear();
    flatMemo.clear();
  }

  exec::KernelOp kernel;
  mlir::OpBuilder &builder;
  ScalarBuilder s;
  mlir::Block &body;
  int64_t rows;
  Value row;
  /// An index, and the number of its element in a value of this shape: spares the arithmetic. Null for none.
  struct KnownPoint {
    Values index;
    llvm::SmallVector<int64_t> shape;
    Value linear;
  } known;
  Value temporaryBase;                    // added to indices of temporaries; null for 0
  llvm::DenseMap<Value, Value> buffer;    // values that lie in the arena
  llvm::DenseMap<Value, Value> temporary; // stages of which one row is kept
  llvm::DenseMap<Value, Value> scalar;    // stages with one element per row: in a register
  llvm::DenseMap<Value, Value> current;   // stages of the loop nest being emitted, at its point

private:
  llvm::SmallVector<unsigned> argumentOf; // of each input and then each output: the number of its buffer
  Value valueAt(unsigned i);
  bool isFlat(mlir::Operation *op) const;
  Value flat(Value value);
  Value splat(graph::ConstantOp constant);
  Value inBuffer(Value value, Value linear);
  Value inTemporary(Value value, Value linear);

  std::map<llvm::SmallVector<const void *>, Value> memo;
  std::map<std::pair<const void *, const void *>, Value> flatMemo; // by block and value
};

} // namespace divisi::codegen
