#pragma once
#include "dialects/Graph/Graph.h"

namespace divisi::graph {

/// Builds graph operations at an insertion point under one location, with the types inferred. Gradients,
/// decompositions, the importer and the optimizer use it. Binary operations broadcast neither shapes nor types: see
/// `broadcastTo`.
class GraphBuilder {
public:
  using Value = mlir::Value;
  using Values = llvm::SmallVector<Value>;

  GraphBuilder(mlir::OpBuilder &builder, mlir::Location loc) : builder(builder), loc(loc) {}

  mlir::OpBuilder &getBuilder() { return builder; }
  mlir::Location getLoc() const { return loc; }
  void setLoc(mlir::Location newLoc) { loc = newLoc; }

  /// Any operation whose first result is wanted.
  template <typename OpT, typename... Args> Value op(Args &&...args) {
    return OpT::create(builder, loc, std::forward<Args>(args)...)->getResult(0);
  }

  // Constants.
  Value constant(mlir::ElementsAttr value) { return op<ConstantOp>(value); }
  /// A tensor of one value (given as double, rounded to the element type).
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
  /// |a - b| of floats; 0 where they are equal, infinities too.
  Value distance(Value a, Value b);
  /// The value itself if it already has the element type.
  Value cast(Value x, mlir::Type element);
  /// Sum of two values of which either may be null.
  Value addMaybe(Value a, Value b) { return !a ? b : !b ? a : add(a, b); }

  // Shape.
  Value reshape(Value x, llvm::ArrayRef<int64_t> shape);
  Value transpose(Value x, llvm::ArrayRef<int64_t> permutation);
  /// The operand's dimension i becomes dimension dims[i] of the shape.
  Value broadcast(Value x, llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> dims);
  /// NumPy's rule: dimensions aligned at the minor end, unit ones repeated.
  Value broadcastTo(Value x, llvm::ArrayRef<int64_t> shape);
  /// A value without the dimensions `reduced` of `shape`, repeated along them.
  Value broadcastAlong(Value x, llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> reduced);
  Value slice(Value x, llvm::ArrayRef<int64_t> starts, llvm::ArrayRef<int64_t> sizes,
              llvm::ArrayRef<int64_t> steps = {});
  /// [start, start + size) along one dimension.
  Value sliceDim(Value x, int64_t dim, int64_t start, int64_t size);
  Value pad(Value x, llvm::ArrayRef<int64_t> low, llvm::ArrayRef<int64_t> shape, double value = 0,
            llvm::ArrayRef<int64_t> steps = {});
  Value concat(mlir::ValueRange values, int64_t dim) { return op<ConcatOp>(values, dim); }
  Value iota(llvm::ArrayRef<int64_t> shape, int64_t dim, mlir::Type element = {});

  // Reductions (the result lacks the dimensions).
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
