// RUN: divisi-opt %s --decompose --prepare-kernels --form-kernels | FileCheck %s

// A library call for the matmul; bias and activation are one kernel over its rows, and the intermediate sum has no buffer.
// CHECK-LABEL: func.func @bias_relu
// CHECK-NEXT: %[[GEMM:.*]] = exec.call graph.matmul {transpose_rhs} (%arg0, %arg1)
// CHECK-NEXT: %[[H:.*]] = exec.kernel rows 256{{ ?}}(%[[GEMM]], %arg2) : (tensor<256x1024xf32>, tensor<1024xf32>) -> tensor<256x1024xf32> {
// CHECK-NEXT: ^bb0(%[[X:.*]]: tensor<256x1024xf32>, %[[B:.*]]: tensor<1024xf32>):
// CHECK-NEXT: graph.broadcast %[[B]]
// CHECK-NEXT: %[[S:.*]] = graph.add %[[X]], %{{[0-9]+}} : tensor
// CHECK-NEXT: %[[R:.*]] = graph.relu %[[S]] {exec.stage}
// CHECK-NEXT: exec.yield %[[R]]
// CHECK-NEXT: }
// CHECK-NEXT: return %[[H]]
func.func @bias_relu(%x: tensor<256x784xf32>, %w: tensor<1024x784xf32>, %b: tensor<1024xf32>) -> tensor<256x1024xf32> {
  %0 = graph.matmul %x, %w {transpose_rhs} : (tensor<256x784xf32>, tensor<1024x784xf32>) -> tensor<256x1024xf32>
  %1 = graph.broadcast %b {dims = array<i64: 1>} : (tensor<1024xf32>) -> tensor<256x1024xf32>
  %2 = graph.add %0, %1 : tensor<256x1024xf32>
  %3 = graph.relu %2 : tensor<256x1024xf32>
  return %3 : tensor<256x1024xf32>
}

// Rows of a softmax: one kernel. The exponentials are kept within a row, the shift is recomputed.
// CHECK-LABEL: func.func @softmax
// CHECK-NEXT: exec.kernel rows 1024
// CHECK: graph.reduce_max {{.*}}exec.stage
// CHECK-NOT: graph.sub {{.*}}exec.stage
// CHECK: graph.exp {{.*}}exec.stage
// CHECK: graph.reduce_sum {{.*}}exec.stage
// CHECK: graph.mul {{.*}}exec.stage
// CHECK-NEXT: exec.yield %{{[0-9]+}} : tensor<1024x512xf32>
// CHECK-NOT: exec.kernel
// CHECK: return
func.func @softmax(%x: tensor<1024x512xf32>) -> tensor<1024x512xf32> {
  %0 = graph.softmax %x {dim = 1 : i64} : (tensor<1024x512xf32>) -> tensor<1024x512xf32>
  return %0 : tensor<1024x512xf32>
}

// Along the columns every row depends on all others: maximum, exponentials, sum and quotient are four kernels.
// CHECK-LABEL: func.func @columns
// CHECK-COUNT-4: exec.kernel
// CHECK-NOT: exec.kernel
// CHECK: return
func.func @columns(%x: tensor<1024x512xf32>) -> tensor<1024x512xf32> {
  %0 = graph.softmax %x {dim = 0 : i64} : (tensor<1024x512xf32>) -> tensor<1024x512xf32>
  return %0 : tensor<1024x512xf32>
}

// Small ones run on one thread, so they may: one kernel of one row.
// CHECK-LABEL: func.func @small_columns
// CHECK-COUNT-1: exec.kernel rows 1{{ ?}}(
// CHECK-NOT: exec.kernel
// CHECK: return
func.func @small_columns(%x: tensor<32x10xf32>) -> tensor<32x10xf32> {
  %0 = graph.softmax %x {dim = 0 : i64} : (tensor<32x10xf32>) -> tensor<32x10xf32>
  return %0 : tensor<32x10xf32>
}

// Two reductions of one input over the same space share a kernel and its reads.
// CHECK-LABEL: func.func @siblings
// CHECK-NEXT: exec.kernel rows 1{{ ?}}(%arg0) : (tensor<1024x512xf32>) -> (tensor<512xf32>, tensor<512xf32>)
// CHECK-NOT: exec.kernel
// CHECK: return
func.func @siblings(%x: tensor<1024x512xf32>) -> (tensor<512xf32>, tensor<512xf32>) {
  %0 = graph.reduce_sum %x {dims = array<i64: 0>} : (tensor<1024x512xf32>) -> tensor<512xf32>
  %1 = graph.mul %x, %x : tensor<1024x512xf32>
  %2 = graph.reduce_sum %1 {dims = array<i64: 0>} : (tensor<1024x512xf32>) -> tensor<512xf32>
  return %0, %2 : tensor<512xf32>, tensor<512xf32>
}

// A scatter is a kernel by itself; splat constants are repeated at their uses, others are buffers.
// CHECK-LABEL: func.func @scatter
// CHECK: %[[TABLE:.*]] = graph.constant dense<{{\[}}1.000000e+00, 2.000000e+00]> : tensor<2xf32>
// CHECK-NEXT: %[[S:.*]] = exec.kernel rows 1{{ ?}}(%arg0, %arg1)
// CHECK: graph.constant dense<0.000000e+00> : tensor<2x64xf32>
// CHECK: graph.scatter_add {{.*}}exec.stage
// CHECK: exec.kernel rows {{[0-9]+}}{{ ?}}({{.*}}%[[TABLE]]
// CHECK: graph.add {{.*}}exec.stage
func.func @scatter(%i: tensor<128xi64>, %u: tensor<128x64xf32>) -> tensor<2x64xf32> {
  %z = graph.constant dense<0.0> : tensor<2x64xf32>
  %t = graph.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %0 = graph.scatter_add %z, %i, %u {dim = 0 : i64} : (tensor<2x64xf32>, tensor<128xi64>, tensor<128x64xf32>) -> tensor<2x64xf32>
  %1 = graph.broadcast %t {dims = array<i64: 0>} : (tensor<2xf32>) -> tensor<2x64xf32>
  %2 = graph.add %0, %1 : tensor<2x64xf32>
  return %2 : tensor<2x64xf32>
}

// What is computed on demand for a report is marked; what the loss depends on is not.
// CHECK-LABEL: func.func @train
// CHECK: exec.kernel rows 1{{ ?}}(%arg0) : (
// CHECK: exec.kernel rows 1{{ ?}}({{.*}}) {when = 4 : i64} :
// CHECK: graph.reduce_max
func.func @train(%x: tensor<4x6xf32>) -> (tensor<f32> {graph.result = {kind = "loss"}}, tensor<f32> {graph.result = {kind = "grad_norm", name = "w", when = 4 : i64}}) {
  %0 = graph.exp %x : tensor<4x6xf32>
  %1 = graph.reduce_sum %0 {dims = array<i64: 0, 1>} : (tensor<4x6xf32>) -> tensor<f32>
  %2 = graph.mul %0, %0 : tensor<4x6xf32>
  %3 = graph.reduce_max %2 {dims = array<i64: 0, 1>} : (tensor<4x6xf32>) -> tensor<f32>
  return %1, %3 : tensor<f32>, tensor<f32>
}

// Unused values are not computed.
// CHECK-LABEL: func.func @dead
// CHECK-NEXT: return %arg0
func.func @dead(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %0 = graph.exp %x : tensor<4x6xf32>
  %1 = graph.reduce_sum %0 {dims = array<i64: 0, 1>} : (tensor<4x6xf32>) -> tensor<f32>
  return %x : tensor<4x6xf32>
}

// A barrier is removed, without leaving a view of a view: the matmul reads the kernel's result.
// CHECK-LABEL: func.func @barrier
// CHECK: %[[EXP:.*]] = exec.kernel
// CHECK-NOT: barrier
// CHECK: %[[VIEW:.*]] = graph.reshape %[[EXP]] : (tensor<2x3x6xf32>) -> tensor<6x6xf32>
// CHECK: exec.call graph.matmul (%[[VIEW]], %[[VIEW]])
func.func @barrier(%x: tensor<2x3x6xf32>) -> tensor<6x6xf32> {
  %0 = graph.exp %x : tensor<2x3x6xf32>
  %1 = graph.reshape %0 : (tensor<2x3x6xf32>) -> tensor<1x6x6xf32>
  %2 = graph.reshape %1 {barrier} : (tensor<1x6x6xf32>) -> tensor<1x6x6xf32>
  %3 = graph.reshape %2 : (tensor<1x6x6xf32>) -> tensor<6x6xf32>
  %4 = graph.matmul %3, %3 : (tensor<6x6xf32>, tensor<6x6xf32>) -> tensor<6x6xf32>
  return %4 : tensor<6x6xf32>
}

// A message is received even if it is unused, because the other side sends it.
// CHECK-LABEL: func.func @unread
// CHECK-NEXT: exec.call dist.receive {id = 3 : i64, stage = 0 : i64} ()
// CHECK-NEXT: return
func.func @unread(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %0 = dist.receive from 0 id 3 : tensor<4x6xf32>
  return %x : tensor<4x6xf32>
}

// What is widened and narrowed again is the same, whatever its shape.
// CHECK-LABEL: func.func @round_trip
// CHECK-NOT: exec.kernel
// CHECK: %[[PRODUCT:.*]] = exec.call graph.matmul
// CHECK-NOT: exec.kernel
// CHECK: %[[SAME:.*]] = graph.reshape %[[PRODUCT]] : (tensor<6x6xbf16>) -> tensor<4x9xbf16>
// CHECK-NOT: exec.kernel
// CHECK: exec.call graph.matmul {{.*}}(%[[SAME]], %[[SAME]])
func.func @round_trip(%x: tensor<6x6xbf16>) -> tensor<4x4xbf16> {
  %0 = graph.matmul %x, %x : (tensor<6x6xbf16>, tensor<6x6xbf16>) -> tensor<6x6xbf16>
  %1 = graph.cast %0 : (tensor<6x6xbf16>) -> tensor<6x6xf32>
  %2 = graph.reshape %1 : (tensor<6x6xf32>) -> tensor<4x9xf32>
  %3 = graph.cast %2 : (tensor<4x9xf32>) -> tensor<4x9xbf16>
  %4 = graph.matmul %3, %3 {transpose_rhs} : (tensor<4x9xbf16>, tensor<4x9xbf16>) -> tensor<4x4xbf16>
  return %4 : tensor<4x4xbf16>
}
