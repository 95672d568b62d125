#pragma once
#include "codegen/Emit/Clusters.h"
#include "codegen/Lowering/ScalarBuilder.h"
#include "dialects/Graph/Graph.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <map>

namespace divisi::codegen {

/// What all emitters of kernels share, whatever runs the loops: where the kernel's values are, and the code that loads
/// or computes an element at an index, or finds it already computed.
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

  /// Declares the kernel's function: an argument for each distinct buffer, then `more`. `buffers` has, for each input
  /// and then each output, the number of its buffer. Appends to `values`, for each buffer, the first value in it.
  mlir::func::FuncOp declare(llvm::StringRef name, llvm::ArrayRef<int64_t> buffers, llvm::ArrayRef<mlir::Type> more,
                             llvm::SmallVectorImpl<unsigned> &values);
  /// Appends the types of the distinct buffers, and values as `declare` does.
  void addBuffers(llvm::ArrayRef<int64_t> buffers, llvm::SmallVectorImpl<mlir::Type> &types,
                  llvm::SmallVectorImpl<unsigned> &values);
  /// Binds the kernel's values to the arguments of a function from `first` on.
  void bind(mlir::func::FuncOp function, unsigned first);

  /// The operation with a fixed order (SerialInterface), if the kernel consists of one; else null.
  mlir::Operation *serialStage();
  /// Emits its loops over [begin, end) of its parallel extent.
  void emitSerialLoops(mlir::Operation *op, const SerialPiece &piece);

  /// The index of the current row along the leading dimensions of a shape.
  Values rowIndex(llvm::ArrayRef<int64_t> shape) {
    return s.delinearize(row, shape.take_front(leadingRank(shape, rows)));
  }
  /// The full point of an operation's loop domain, for the indices of a cluster's loops, which leave out extents of 1.
  Values pointOf(const LoopDomain &domain, ValueRange inner, const Cluster &cluster);
  /// One point of a materialized value: its elements, or its new accumulators. `linear` is the number of the element of
  /// the stage's loops, if it is known: saves the arithmetic, and shows that elements are consecutive.
  Values step(mlir::Operation *stage, ValueRange point, ValueRange accumulators, Value linear = {});

  /// The initial accumulators of a cluster's reductions.
  Values initials(const Cluster &cluster);
  /// One step of all reductions of a cluster, at the indices of its loops: returns the new accumulators.
  Values stepAll(const Cluster &cluster, ValueRange inner, ValueRange accumulators, Value linear = {});
  /// One point of a cluster of the kind pass. `store` stores the element of a pointwise value that is in memory.
  /// Returns the new accumulators of the reductions. `known`: the number of the element, as for step.
  Values passPoint(const Cluster &cluster, ValueRange inner, ValueRange accumulators,
                   llvm::function_ref<void(Value value, Value element)> store, Value known = {});
  /// Stores the results of a cluster's values (one list for all) that are in memory, at an element of the row.
  void storeResults(const Cluster &cluster, llvm::ArrayRef<Value> elements, Value linear);
  /// Merges the indices of kept and reduced dimensions into the indices of a cluster's loops within a row.
  Values mergeIndices(const Cluster &cluster, ValueRange kept, ValueRange reduced);

  /// The element of a value at an index, or with a number.
  Value resolve(Value value, ValueRange index);
  Value elementAt(Value value, Value linear);

  bool isInMemory(Value value) const { return buffer.count(value) || temporary.count(value); }
  /// Stores an element of the current row of a value; `linear` is its number within the row.
  void storeAt(Value value, Value element, Value linear);
  Value loadAt(Value value, Value linear);
  /// Forgets computed elements, before another point or row.
  void forget() {
    memo.clear();
    flatMemo.clear();
    known.clear();
  }

  exec::KernelOp kernel;
  mlir::OpBuilder &builder;
  ScalarBuilder s;
  mlir::Block &body;
  int64_t rows;
  Value row;
  /// If not null: elements whose number is known are loaded before this operation, once for all its branches.
  mlir::Operation *branches = nullptr;
  Value temporaryBase;                    // added to indices of temporaries; null for 0
  llvm::DenseMap<Value, Value> buffer;    // values in the arena
  llvm::DenseMap<Value, Value> temporary; // values of which one row is kept
  llvm::DenseMap<Value, Value> scalar;    // values with one element per row, in a register
  llvm::DenseMap<Value, Value> current;   // values of the current loop nest, at its point

private:
  llvm::SmallVector<unsigned> argumentOf; // of each input and then each output: the number of its buffer
  Value valueAt(unsigned i);
  bool isFlat(mlir::Operation *op) const;
  Value flat(Value value);
  Value splat(graph::ConstantOp constant);
  Value inBuffer(Value value, Value linear);
  Value inTemporary(Value value, Value linear);
  Value linearAt(ValueRange index, llvm::ArrayRef<int64_t> shape) const;
  Values emitStep(mlir::Operation *op, ValueRange point, ValueRange accumulators);
  Value concatOfBuffers(graph::ConcatOp concat, ValueRange point);
  Value bufferOf(Value value, llvm::SmallVectorImpl<mlir::Operation *> &functions) const;
  Value loadBeforeBranches(Value source, Value linear);

  /// A known index and the number of its element in a value of this shape.
  struct KnownPoint {
    Values index;
    llvm::SmallVector<int64_t> shape;
    Value linear;
  };
  llvm::SmallVector<KnownPoint> known;
  std::map<llvm::SmallVector<const void *>, Value> memo;
  std::map<std::pair<const void *, const void *>, Value> flatMemo; // by block and value
  llvm::DenseMap<std::pair<Value, Value>, Value> loadedBefore;     // by buffer and number
};

} // namespace divisi::codegen
