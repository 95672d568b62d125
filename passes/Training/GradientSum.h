#pragma once
#include "dialects/Graph/GraphBuilder.h"

namespace divisi::training {

/// The gradient of a value: the sum of one contribution for each of its uses. Contributions are added as they come, so
/// that one sum is kept instead of all of them, but for two kinds that are cheaper together:
/// - gradients of slices along one dimension that do not overlap: they are joined by a concat;
/// - products x^T y of two matrices, where the operands of all products together are smaller than the results: they
///   are one matmul of the joined operands. (A weight that is used in each step of an unrolled loop has these.)
class GradientSum {
public:
  void add(graph::GraphBuilder &b, mlir::Value contribution);
  /// The sum, built at the builder's place after the last contribution; null if there is none.
  mlir::Value total(graph::GraphBuilder &b);

private:
  void joinParts(graph::GraphBuilder &b);
  void joinProducts(graph::GraphBuilder &b);

  mlir::Value sum;
  llvm::SmallVector<graph::PadOp> parts;
  llvm::SmallVector<graph::MatmulOp> products;
};

} // namespace divisi::training
