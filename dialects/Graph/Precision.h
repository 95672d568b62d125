#pragma once

namespace mlir {
class Operation;
}

namespace divisi::graph {

/// The number format in which a device computes matmuls.
enum Precision { fp32, tf32, bf16, fp16 };

/// Of a call, the precision of its first operand (attention has wider statistics beside it), TF32 where operands in
/// fp32 may be rounded to it; kernels compute in fp32.
Precision precisionOf(mlir::Operation *op);

} // namespace divisi::graph
