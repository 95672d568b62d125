#pragma once
#include "compiler/Import/Tensors.h"
#include "dialects/Graph/GraphBuilder.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"

#include <limits>

namespace divisi::compiler {

inline constexpr double minusInfinity = -std::numeric_limits<double>::infinity();

/// A GraphBuilder for untrusted input: an operation that would not verify is an ImportError instead of a fatal error.
/// Elementwise operations, which cannot fail to build, are verified when their node has been imported.
class CheckedBuilder : public graph::GraphBuilder {
public:
  using Dims = llvm::ArrayRef<int64_t>;
  using Shape = llvm::SmallVector<int64_t>;

  CheckedBuilder(mlir::OpBuilder &builder, mlir::Location loc, std::string &lastError)
      : GraphBuilder(builder, loc), lastError(lastError) {}

  /// Creates any operation; returns it with all its results.
  template <typename OpT, typename... Args> mlir::Operation *create(Args &&...args) {
    mlir::OperationState state(getLoc(), OpT::getOperationName());
    constexpr bool infers = OpT::template hasTrait<mlir::InferTypeOpInterface::Trait>() && requires {
      OpT::build(getBuilder(), state, mlir::TypeRange(), std::forward<Args>(args)...);
    };
    if constexpr (infers) {
      constexpr size_t count = OpT::template hasTrait<mlir::OpTrait::OneResult>() ? 1 : 2;
      llvm::SmallVector<mlir::Type> types(count, getBuilder().getI1Type());
      OpT::build(getBuilder(), state, mlir::TypeRange(types), std::forward<Args>(args)...);
      types.clear();
      if (mlir::failed(OpT::inferReturnTypes(getLoc().getContext(), getLoc(), state.operands,
                                             state.attributes.getDictionary(getLoc().getContext()),
                                             state.getRawProperties(), {}, types)))
        throw ImportError{lastError};
      state.types.assign(types.begin(), types.end());
    } else {
      OpT::build(getBuilder(), state, std::forward<Args>(args)...);
    }
    return insert(state);
  }
  template <typename OpT, typename... Args> Value op(Args &&...args) {
    return create<OpT>(std::forward<Args>(args)...)->getResult(0);
  }

  mlir::Type elementOf(Value x) { return graph::tensorType(x).getElementType(); }
  bool isFloat(Value x) { return mlir::isa<mlir::FloatType>(elementOf(x)); }
  /// A floating-point value in single precision, if it has fewer bits; others as they are.
  Value widened(Value x) { return isFloat(x) && elementOf(x).getIntOrFloatBitWidth() < 32 ? cast(x, f32()) : x; }
  int64_t rankOf(Value x) { return graph::tensorType(x).getRank(); }
  mlir::Type i64() { return getBuilder().getI64Type(); }
  mlir::Type f32() { return getBuilder().getF32Type(); }
  /// A tensor type; checks the shape.
  mlir::RankedTensorType type(Dims shape, mlir::Type element) { return checkedType(shape, element); }
  Value splatOf(Dims shape, mlir::Type element, double value) { return splat(type(shape, element), value); }
  /// A constant tensor with these numbers, rounded to the element type.
  Value numbers(Dims shape, mlir::Type element, llvm::ArrayRef<double> values);

  // GraphBuilder's functions, with checks.
  Value reshape(Value x, Dims shape);
  Value transpose(Value x, Dims permutation);
  Value broadcast(Value x, Dims shape, Dims dims);
  Value broadcastTo(Value x, Dims shape);
  Value broadcastAlong(Value x, Dims shape, Dims reduced);
  Value slice(Value x, Dims starts, Dims sizes, Dims steps = {});
  Value sliceDim(Value x, int64_t dim, int64_t start, int64_t size);
  Value pad(Value x, Dims low, Dims shape, double value = 0);
  Value concat(mlir::ValueRange values, int64_t dim);
  Value iota(Dims shape, int64_t dim, mlir::Type element = {});
  Value matmul(Value a, Value b, bool transposeA = false, bool transposeB = false) {
    return op<graph::MatmulOp>(a, b, transposeA, transposeB);
  }
  Value gather(Value x, Value indices, int64_t dim) { return op<graph::GatherOp>(x, indices, dim); }
  template <typename OpT> Value reduce(Value x, Dims dims) { return dims.empty() ? x : op<OpT>(x, dims); }
  Value reduceSum(Value x, Dims dims) { return reduce<graph::ReduceSumOp>(x, dims); }
  Value reduceMax(Value x, Dims dims) { return reduce<graph::ReduceMaxOp>(x, dims); }
  /// The mean of floats, or of integers by integer division.
  Value reduceMean(Value x, Dims dims);
  Value sumAll(Value x);

  /// Reshapes a reduced tensor so that it has dimensions of size 1 where `dims` were reduced.
  Value keepDims(Value reduced, Dims shape, Dims dims);
  /// Broadcasts all values to one shape by NumPy's rule.
  Values broadcastTogether(llvm::ArrayRef<Value> values);
  /// A binary operation with NumPy's broadcasting.
  template <typename OpT> Value binary(Value a, Value b) {
    if (elementOf(a) != elementOf(b))
      fail("element types differ: ", elementOf(a), " and ", elementOf(b));
    Values both = broadcastTogether({a, b});
    return op<OpT>(both[0], both[1]);
  }

private:
  mlir::Operation *insert(mlir::OperationState &state);
  std::string &lastError;
};

/// The common shape by NumPy's rule.
CheckedBuilder::Shape broadcastShape(llvm::ArrayRef<CheckedBuilder::Dims> shapes);

/// The dimensions from first to last - 1.
inline CheckedBuilder::Shape dimRange(int64_t first, int64_t last) {
  return llvm::to_vector(llvm::seq<int64_t>(first, std::max(first, last)));
}

} // namespace divisi::compiler
