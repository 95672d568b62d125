#pragma once
#include "test/execute/Draw.h"

#include "dialects/Graph/GraphBuilder.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace divisi::test {

/// @loss of a random small model as the importer would write it, with a scalar loss that depends on parameters. Integer
/// inputs have the range of their random values in `graph.range`. Values have the order of one and are far from points
/// where rounding errors are amplified, so that different ways to compute them agree.
class RandomModel {
public:
  RandomModel(mlir::MLIRContext *context, Draw &draw);
  mlir::OwningOpRef<mlir::ModuleOp> build();

private:
  using Value = mlir::Value;
  using Shape = llvm::SmallVector<int64_t>;
  using Block = Value (RandomModel::*)(Value);

  // Arguments of @loss.
  Value parameter(llvm::ArrayRef<int64_t> shape, bool mayFreeze = true);
  Value buffer(llvm::ArrayRef<int64_t> shape, llvm::StringRef suffix);
  Value input(llvm::ArrayRef<int64_t> shape);
  /// Integers from [low, high).
  Value indices(llvm::ArrayRef<int64_t> shape, int64_t low, int64_t high);
  Value argument(llvm::ArrayRef<int64_t> shape, mlir::Type element, llvm::ArrayRef<mlir::NamedAttribute> attributes);

  Value stem();
  void head(Value x);

  // Blocks: compute another value from one; null if they do not apply.
  Value unary(Value x);
  Value binary(Value x);
  Value masked(Value x);
  Value bias(Value x);
  Value linear(Value x);
  Value attention(Value x);
  Value convolution(Value x);
  Value pooling(Value x);
  Value reduction(Value x);
  Value centered(Value x);
  Value reshape(Value x);
  Value transpose(Value x);
  Value slice(Value x);
  Value pad(Value x);
  Value concat(Value x);
  Value repeat(Value x);
  Value gather(Value x);
  Value gatherElements(Value x);
  Value gatherNd(Value x);
  Value scatterAdd(Value x);
  Value scatterElements(Value x);
  Value scatterNd(Value x);
  Value topK(Value x);
  Value cumsum(Value x);
  Value extreme(Value x);
  Value normalize(Value x);
  Value batchNorm(Value x);
  Value dropout(Value x);
  Value wide(Value x);

  mlir::Type f32() { return builder.getF32Type(); }
  mlir::Type i64() { return builder.getI64Type(); }
  mlir::RankedTensorType type(llvm::ArrayRef<int64_t> shape, mlir::Type element) {
    return mlir::RankedTensorType::get(shape, element);
  }
  int64_t size() { return draw.of<int64_t>({2, 4, 4, 6, 8, 8, 12, 3, 5}); }
  static int64_t rankOf(Value x) { return graph::tensorType(x).getRank(); }
  int64_t dimOf(Value x) { return draw.below(rankOf(x)); }
  /// Another value of x's shape: an earlier one or a parameter.
  Value partner(Value x);
  /// Bounded, whatever x is.
  Value tame(Value x) { return b.op<graph::TanhOp>(x); }

  /// Nearly x, without ties: the position of the largest of equal numbers would depend on rounding.
  Value distinct(Value x);

  Draw &draw;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::OpBuilder builder;
  graph::GraphBuilder b;
  mlir::func::FuncOp function;
  llvm::SmallVector<Value> values;                          // all that was drawn so far
  llvm::SmallVector<std::pair<std::string, Value>> renewed; // buffers
  int64_t batch = 1, parameters = 0, inputs = 0, buffers = 0, streams = 0;
};

} // namespace divisi::test
