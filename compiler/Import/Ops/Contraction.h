#pragma once
#include "compiler/Import/NodeImporter.h"

namespace divisi::compiler {

/// A matmul of two tensors of equal rank. A transpose of the last two dimensions of an operand becomes a flag.
mlir::Value matmulOf(CheckedBuilder &b, mlir::Value lhs, mlir::Value rhs, bool transposeLhs = false,
                     bool transposeRhs = false);

/// NumPy's matmul: vectors, broadcast batch dimensions. If the right operand is a matrix, all leading dimensions of the
/// left one are rows.
mlir::Value generalMatmul(CheckedBuilder &b, mlir::Value lhs, mlir::Value rhs);

/// The node's inputs as ONNX's Gemm: alpha * A B + beta * C.
mlir::Value gemm(NodeImporter &n);

/// Einstein summation (Einsum.cpp).
mlir::Value einsum(CheckedBuilder &b, llvm::StringRef equation, llvm::ArrayRef<mlir::Value> operands);

} // namespace divisi::compiler
