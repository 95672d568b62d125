#pragma once
#include "dialects/Graph/Graph.h"

namespace divisi::graph {

/// Concatenates values by `join`, many of them in groups: a loop over many operands chooses one for each element, and takes long to compile.
mlir::Value concatInGroups(mlir::ValueRange values, llvm::function_ref<mlir::Value(mlir::ValueRange)> join);

/// Builds graph operations at an insertion point, with one location and inferred types. It is used by gradients,
/// decompositions, the importer and the optimizer. Binary operations broadcast neither shapes nor types: see
/// `broadcastTo`.
class GraphBuilder {
public:
  using Value = mlir::Value;
  using Values = llvm::SmallVector<Value>;

  GraphBuilder(mlir::OpBuilder &builder, mlir::Location loc) : builder(builder), loc(loc) {}

  mlir::OpBuilder &getBuilder() { return builder; }
  mlir::Location getLoc() const { return loc; }
  void setLoc(mlir::Location newLoc) { loc = newLoc; }

  /// Creates any operation and returns its first result.
  template <typename OpT, typename... Args> Value op(Args &&...args) {
    return OpT::create(builder, loc, std::forward<Args>(args)...)->getResult(0);
  }

  // Constants.
  Value constant(mlir::ElementsAttr value) { return op<ConstantOp>(value); }
  /// A constant tensor with one value everywhere (a double, rounded to the element type).
  Value splat(mlir::RankedTensorType type, double value);
  Value splatLike(Value like, double value) { return splat(tensorType(like), value); }
  /// An int64 vector.
  Value indices(llvm::ArrayRef<int64_t> values);

  // Elementwise.
  Value add(Value a, Value b) { return op<AddOp>(a, b); }
  Value sub(Value a, Value b) { return op<SubOp>(a, b); }
  Value mul(Value a, Value b) { return op<MulOp>(a, b); }
  Value div(Value a, Value b) { return op<DivOp>(a, b); }
  Value neg(Value a) { return op<NegOp>(a); }
  Value addConst(Value a, double c) { return add(a, splatLike(a, c)); }
  Value scale(Value a, double c) { return mul(a, splatLike(a, c)); }
  Value compare(Predicate predicate, Value a, Value b);
  Value compareConst(Predicate predicate, Value a, double c) { return compare(predicate, a, splatLike(a, c)); }
  Value select(Value condition, Value a, Value b) { return op<SelectOp>(a.getType(), condition, a, b); }
  /// x where the condition holds, else zero.
  Value keepWhere(Value condition, Value x) { return select(condition, x, splatLike(x, 0)); }
  /// Whether low <= x < high.
  Value isWithin(Value x, double low, double high);
  /// 1 where the condition holds, else 0, with the type of `like`.
  Value indicator(Value condition, Value like);
  /// |a - b| of floats; 0 where they are equal, even if they are infinite.
  Value distance(Value a, Value b);
  /// Casts to an element type; a value of this type is returned itself.
  Value cast(Value x, mlir::Type element);
  /// The sum of two values, either of which may be null.
  Value addMaybe(Value a, Value b) { return !a ? b : !b ? a : add(a, b); }

  // Shape.
  Value reshape(Value x, llvm::ArrayRef<int64_t> shape);
  Value transpose(Value x, llvm::ArrayRef<int64_t> permutation);
  /// Dimension i of the operand becomes dimension dims[i] of the result.
  Value broadcast(Value x, llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> dims);
  /// Broadcasts by NumPy's rule: dimensions are aligned at the minor end, and dimensions of size 1 are repeated.
  Value broadcastTo(Value x, llvm::ArrayRef<int64_t> shape);
  /// Broadcasts a value that lacks the dimensions `reduced` of `shape` along them.
  Value broadcastAlong(Value x, llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> reduced);
  Value slice(Value x, llvm::ArrayRef<int64_t> starts, llvm::ArrayRef<int64_t> sizes,
              llvm::ArrayRef<int64_t> steps = {});
  /// Slices [start, start + size) of one dimension.
  Value sliceDim(Value x, int64_t dim, int64_t start, int64_t size);
  Value pad(Value x, llvm::ArrayRef<int64_t> low, llvm::ArrayRef<int64_t> shape, double value = 0,
            llvm::ArrayRef<int64_t> steps = {});
  Value concat(mlir::ValueRange values, int64_t dim) {
    return concatInGroups(values, [&](mlir::ValueRange group) { return op<ConcatOp>(group, dim); });
  }
  Value iota(llvm::ArrayRef<int64_t> shape, int64_t dim, mlir::Type element = {});

  // Reductions. The result does not have the reduced dimensions.
  Value reduceSum(Value x, llvm::ArrayRef<int64_t> dims) { return reduce<ReduceSumOp>(x, dims); }
  Value reduceMax(Value x, llvm::ArrayRef<int64_t> dims) { return reduce<ReduceMaxOp>(x, dims); }
  Value reduceMean(Value x, llvm::ArrayRef<int64_t> dims);
  /// Sum of all elements: a scalar.
  Value sumAll(Value x);
  template <typename OpT> Value reduce(Value x, llvm::ArrayRef<int64_t> dims) {
    return dims.empty() ? x : op<OpT>(x, dims);
  }

  // Contractions.
  Value matmul(Value a, Value b, bool transposeA = false, bool transposeB = false) {
    return op<MatmulOp>(a, b, transposeA, transposeB);
  }
  Value gather(Value x, Value indices, int64_t dim) { return op<GatherOp>(x, indices, dim); }

private:
  mlir::OpBuilder &builder;
  mlir::Location loc;
};

} // namespace divisi::graph
