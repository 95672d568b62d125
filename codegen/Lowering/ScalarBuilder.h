#pragma once
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"

#include <functional>
#include <string>

namespace divisi::codegen {

/// The element of an operand at an index.
using Load = llvm::function_ref<mlir::Value(unsigned operand, mlir::ValueRange index)>;

/// The piece of a serial operation that one thread computes: [begin, end) of its parallel extent.
struct SerialPiece {
  mlir::Value begin, end;
};

/// An iteration space, outermost dimension first. The dimensions that are not reduced are those of the result, in
/// order.
struct LoopDomain {
  llvm::SmallVector<int64_t> extents;
  llvm::SmallVector<bool> reduced;

  static LoopDomain pointwise(mlir::Operation *op);
  bool hasReduction() const { return llvm::is_contained(reduced, true); }
  int64_t points() const;
  /// The result's index for a point.
  llvm::SmallVector<mlir::Value> resultIndex(mlir::ValueRange point) const;
};

/// A service of the runtime and its parameters: the words of its parameter block. The first word is the id of a
/// collective; the last one is the number of bytes of the workspace if a library needs one.
struct LibraryCall {
  std::string service;
  llvm::SmallVector<int64_t> params;
  int64_t workspace = 0; // bytes that a GPU's library may use
};

/// Builds scalar arithmetic and folds constants: with constant inputs whole elements fold, which is how constants are
/// evaluated. Small floats (f16, bf16) are computed in f32 and rounded after each operation.
class ScalarBuilder {
public:
  using Value = mlir::Value;
  using Type = mlir::Type;

  ScalarBuilder(mlir::OpBuilder &builder, mlir::Location loc) : builder(builder), loc(loc) {}
  mlir::OpBuilder &getBuilder() { return builder; }
  mlir::Location getLoc() const { return loc; }

  template <typename OpT, typename... Args> Value op(Args &&...args) {
    return builder.createOrFold<OpT>(loc, std::forward<Args>(args)...);
  }

  // Indices.
  Value index(int64_t value);
  Value addIndex(Value a, Value b) { return op<mlir::arith::AddIOp>(a, b, noWrap); }
  Value subIndex(Value a, Value b) { return op<mlir::arith::SubIOp>(a, b, noWrap); }
  Value mulIndex(Value a, Value b) { return op<mlir::arith::MulIOp>(a, b, noWrap); }
  Value addIndex(Value a, int64_t c) { return c == 0 ? a : addIndex(a, index(c)); }
  Value mulIndex(Value a, int64_t c) { return c == 1 ? a : mulIndex(a, index(c)); }
  Value divIndex(Value a, int64_t c) { return c == 1 ? a : op<mlir::arith::DivUIOp>(a, index(c)); }
  Value remIndex(Value a, int64_t c) { return c == 1 ? index(0) : op<mlir::arith::RemUIOp>(a, index(c)); }
  /// Clamped to [0, size - 1].
  Value clampIndex(Value a, int64_t size);
  /// 0 <= a < size.
  Value inRange(Value a, int64_t size);
  Value toIndex(Value integer) { return op<mlir::arith::IndexCastOp>(builder.getIndexType(), integer); }
  Value linearize(mlir::ValueRange index, llvm::ArrayRef<int64_t> shape);
  llvm::SmallVector<Value> delinearize(Value linear, llvm::ArrayRef<int64_t> shape);

  // Scalars. `element` is a tensor's element type, which may be an unsigned integer; scalar values are signless.
  static Type scalarType(Type element);
  Value constant(Type element, double value);
  Value integer(Type element, int64_t value);
  Value convert(Value value, Type from, Type to);
  Value widen(Value value);
  Value narrow(Value value, Type type);
  /// A binary operation on scalars; of small floats, in f32.
  template <typename OpT, typename... More> Value wide(Value a, Value b, More... more) {
    Value right = widen(b);
    return narrow(op<OpT>(widen(a), right, more...), a.getType());
  }
  Value logicalAnd(Value a, Value b) { return op<mlir::arith::AndIOp>(a, b); }
  Value select(Value condition, Value a, Value b) { return op<mlir::arith::SelectOp>(condition, a, b); }

  Value add(Value a, Value b);
  Value mul(Value a, Value b);
  /// a + b for a sum whose order does not matter, which may be vectorized.
  Value accumulate(Value a, Value b);
  Value max(Value a, Value b, bool isUnsigned);
  Value min(Value a, Value b, bool isUnsigned);

  // Elements of buffers (memrefs).
  Value load(Value buffer, mlir::ValueRange index);
  void store(Value value, Value buffer, mlir::ValueRange index);

  /// for (i = lower; i < upper; i += step), with carried values; returns the last ones.
  llvm::SmallVector<Value> loop(Value lower, Value upper, mlir::ValueRange carried,
                                llvm::function_ref<llvm::SmallVector<Value>(Value, mlir::ValueRange)> body,
                                int64_t step = 1);
  llvm::SmallVector<Value> loop(int64_t lower, int64_t upper, mlir::ValueRange carried,
                                llvm::function_ref<llvm::SmallVector<Value>(Value, mlir::ValueRange)> body) {
    Value end = index(upper);
    return loop(index(lower), end, carried, body);
  }
  /// Emits the body under a condition; null: always.
  void when(Value condition, llvm::function_ref<void()> then);
  /// Nested loops over extents.
  llvm::SmallVector<Value> loops(llvm::ArrayRef<int64_t> extents, mlir::ValueRange carried,
                                 llvm::function_ref<llvm::SmallVector<Value>(mlir::ValueRange, mlir::ValueRange)> body);

  /// Of several elements that are computed together: the innermost index of this one is `at` = `first` + `offset`,
  /// where `first` is a multiple of their number, `count`.
  struct Together {
    Value first, at;
    int64_t offset = 0, count = 1;
  } together;

private:
  static constexpr auto noWrap = mlir::arith::IntegerOverflowFlags::nsw;

  mlir::OpBuilder &builder;
  mlir::Location loc;
};

/// Attaches the lowerings of all graph operations.
void registerLowerings(mlir::DialectRegistry &registry);

} // namespace divisi::codegen

#include "codegen/Lowering/LoopInterface.h.inc"
