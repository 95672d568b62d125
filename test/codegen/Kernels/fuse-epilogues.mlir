// RUN: divisi-opt %s --fuse-epilogues --split-input-file | FileCheck %s

// A layer with relu, forward and backward: kernels compute relu's gradient from its result, and the matmul of the weight's
// gradient sums the rows.
// CHECK-LABEL: func.func @relu(
// CHECK-DAG: %[[B:.*]] = graph.cast %arg2 : (tensor<128xf32>) -> tensor<128xbf16>
// CHECK: %[[Y:.*]] = graph.matmul_epilogue relu %arg0, %arg1, %[[B]] {transpose_rhs} : {{.*}} -> tensor<32x128xbf16>
// CHECK-NEXT: %[[R:.*]] = graph.cast %[[Y]] : (tensor<32x128xbf16>) -> tensor<32x128xf32>
// CHECK-NEXT: graph.matmul %arg3, %arg4 :
// CHECK: %[[P:.*]] = graph.compare gt %[[R]]
// CHECK-NEXT: %[[D:.*]] = graph.select %[[P]]
// CHECK-NEXT: %[[G:.*]] = graph.cast %[[D]]
// CHECK-NEXT: %[[W:.*]], %[[SUM:.*]] = graph.matmul_epilogue sum_lhs %[[G]], %arg0 {transpose_lhs} : {{.*}} -> (tensor<128x64xbf16>, tensor<128xbf16>)
// CHECK-NEXT: %[[WIDE:.*]] = graph.cast %[[SUM]] : (tensor<128xbf16>) -> tensor<128xf32>
// CHECK-NEXT: return %[[Y]], %[[W]], %[[WIDE]]
func.func @relu(%x: tensor<32x64xbf16>, %w: tensor<128x64xbf16>, %b: tensor<128xf32>, %g: tensor<32x16xbf16>, %v: tensor<16x128xbf16>) -> (tensor<32x128xbf16>, tensor<128x64xbf16>, tensor<128xf32>) {
  %zero = graph.constant dense<0.0> : tensor<32x128xf32>
  %0 = graph.matmul %x, %w {transpose_rhs} : (tensor<32x64xbf16>, tensor<128x64xbf16>) -> tensor<32x128xbf16>
  %1 = graph.cast %0 : (tensor<32x128xbf16>) -> tensor<32x128xf32>
  %2 = graph.broadcast %b {dims = array<i64: 1>} : (tensor<128xf32>) -> tensor<32x128xf32>
  %3 = graph.add %1, %2 : tensor<32x128xf32>
  %4 = graph.relu %3 : tensor<32x128xf32>
  %5 = graph.cast %4 : (tensor<32x128xf32>) -> tensor<32x128xbf16>
  %6 = graph.matmul %g, %v : (tensor<32x16xbf16>, tensor<16x128xbf16>) -> tensor<32x128xbf16>
  %7 = graph.cast %6 : (tensor<32x128xbf16>) -> tensor<32x128xf32>
  %8 = graph.compare gt %4, %zero : (tensor<32x128xf32>, tensor<32x128xf32>) -> tensor<32x128xi1>
  %9 = graph.select %8, %7, %zero : (tensor<32x128xi1>, tensor<32x128xf32>, tensor<32x128xf32>) -> tensor<32x128xf32>
  %10 = graph.reduce_sum %9 {dims = array<i64: 0>} : (tensor<32x128xf32>) -> tensor<128xf32>
  %11 = graph.cast %9 : (tensor<32x128xf32>) -> tensor<32x128xbf16>
  %12 = graph.matmul %11, %x {transpose_lhs} : (tensor<32x128xbf16>, tensor<32x64xbf16>) -> tensor<128x64xbf16>
  return %5, %12, %10 : tensor<32x128xbf16>, tensor<128x64xbf16>, tensor<128xf32>
}

// -----

// Gelu keeps its argument, through reshapes that split the rows. A gradient of another producer reads it, too. The sum of the
// gradient's rows is left to the matmul of the weight's gradient.
// CHECK-LABEL: func.func @gelu(
// CHECK: %[[Y:.*]], %[[X:.*]] = graph.matmul_epilogue gelu %arg0, %arg1, %{{.*}} : {{.*}} -> (tensor<32x48xbf16>, tensor<32x48xbf16>)
// CHECK-NOT: graph.gelu
// CHECK: %[[G:.*]] = graph.matmul_epilogue gelu_grad %arg3, %arg4, %[[X]] : {{.*}} -> tensor<32x48xbf16>
// CHECK-NEXT: %[[V:.*]], %[[SUM:.*]] = graph.matmul_epilogue sum_rhs %arg0, %[[G]] {transpose_lhs} : {{.*}} -> (tensor<64x48xbf16>, tensor<48xbf16>)
// CHECK-NEXT: %[[WIDE:.*]] = graph.cast %[[SUM]] : (tensor<48xbf16>) -> tensor<48xf32>
// CHECK-NEXT: return %[[Y]], %[[V]], %[[WIDE]]
// CHECK-LABEL: func.func @gelu_elsewhere(
// CHECK: %[[Y:.*]], %[[X:.*]] = graph.matmul_epilogue gelu
// CHECK: %[[W:.*]] = graph.cast %[[X]] : (tensor<32x48xbf16>) -> tensor<32x48xf32>
// CHECK: graph.gelu_grad %[[W]], %arg3 {tanh, whole}
// CHECK-LABEL: func.func @gelu_exact(
// CHECK-NOT: graph.matmul_epilogue
func.func @gelu(%x: tensor<32x64xbf16>, %w: tensor<64x48xbf16>, %b: tensor<48xf32>, %g: tensor<32x16xbf16>, %v: tensor<16x48xbf16>) -> (tensor<32x48xbf16>, tensor<64x48xbf16>, tensor<48xf32>) {
  %0 = graph.matmul %x, %w : (tensor<32x64xbf16>, tensor<64x48xbf16>) -> tensor<32x48xbf16>
  %1 = graph.cast %0 : (tensor<32x48xbf16>) -> tensor<32x48xf32>
  %2 = graph.reshape %1 : (tensor<32x48xf32>) -> tensor<4x8x48xf32>
  %3 = graph.broadcast %b {dims = array<i64: 2>} : (tensor<48xf32>) -> tensor<4x8x48xf32>
  %4 = graph.add %3, %2 : tensor<4x8x48xf32>
  %5 = graph.gelu %4 {tanh, whole} : tensor<4x8x48xf32>
  %6 = graph.reshape %5 : (tensor<4x8x48xf32>) -> tensor<32x48xf32>
  %7 = graph.cast %6 : (tensor<32x48xf32>) -> tensor<32x48xbf16>
  %8 = graph.matmul %g, %v : (tensor<32x16xbf16>, tensor<16x48xbf16>) -> tensor<32x48xbf16>
  %9 = graph.cast %8 : (tensor<32x48xbf16>) -> tensor<32x48xf32>
  %10 = graph.reshape %9 : (tensor<32x48xf32>) -> tensor<4x8x48xf32>
  %11 = graph.gelu_grad %4, %10 {tanh, whole} : tensor<4x8x48xf32>
  %12 = graph.reduce_sum %11 {dims = array<i64: 0, 1>} : (tensor<4x8x48xf32>) -> tensor<48xf32>
  %13 = graph.reshape %11 : (tensor<4x8x48xf32>) -> tensor<32x48xf32>
  %14 = graph.cast %13 : (tensor<32x48xf32>) -> tensor<32x48xbf16>
  %15 = graph.matmul %x, %14 {transpose_lhs} : (tensor<32x64xbf16>, tensor<32x48xbf16>) -> tensor<64x48xbf16>
  return %7, %15, %12 : tensor<32x48xbf16>, tensor<64x48xbf16>, tensor<48xf32>
}
func.func @gelu_elsewhere(%x: tensor<32x64xbf16>, %w: tensor<64x48xbf16>, %b: tensor<48xf32>, %g: tensor<32x48xf32>) -> (tensor<32x48xbf16>, tensor<32x48xf32>) {
  %0 = graph.matmul %x, %w : (tensor<32x64xbf16>, tensor<64x48xbf16>) -> tensor<32x48xbf16>
  %1 = graph.cast %0 : (tensor<32x48xbf16>) -> tensor<32x48xf32>
  %2 = graph.broadcast %b {dims = array<i64: 1>} : (tensor<48xf32>) -> tensor<32x48xf32>
  %3 = graph.add %1, %2 : tensor<32x48xf32>
  %4 = graph.gelu %3 {tanh, whole} : tensor<32x48xf32>
  %5 = graph.cast %4 : (tensor<32x48xf32>) -> tensor<32x48xbf16>
  %6 = graph.gelu_grad %3, %g {tanh, whole} : tensor<32x48xf32>
  return %5, %6 : tensor<32x48xbf16>, tensor<32x48xf32>
}
func.func @gelu_exact(%x: tensor<32x64xbf16>, %w: tensor<64x48xbf16>, %b: tensor<48xf32>) -> tensor<32x48xbf16> {
  %0 = graph.matmul %x, %w : (tensor<32x64xbf16>, tensor<64x48xbf16>) -> tensor<32x48xbf16>
  %1 = graph.cast %0 : (tensor<32x48xbf16>) -> tensor<32x48xf32>
  %2 = graph.broadcast %b {dims = array<i64: 1>} : (tensor<48xf32>) -> tensor<32x48xf32>
  %3 = graph.add %1, %2 : tensor<32x48xf32>
  %4 = graph.gelu %3 : tensor<32x48xf32>
  %5 = graph.cast %4 : (tensor<32x48xf32>) -> tensor<32x48xbf16>
  return %5 : tensor<32x48xbf16>
}

// -----

// Only a bias, for a library that reads the result in other dimensions; kernels add it themselves.
// CHECK-LABEL: func.func @bias(
// CHECK: %[[Y:.*]] = graph.matmul_epilogue bias %arg0, %arg1, %{{.*}} -> tensor<32x16xbf16>
// CHECK-NEXT: graph.reshape %[[Y]] : (tensor<32x16xbf16>) -> tensor<2x16x2x8xbf16>
// CHECK-LABEL: func.func @kernel(
// CHECK-NOT: graph.matmul_epilogue
// CHECK-LABEL: func.func @sizes(
// CHECK-NOT: graph.matmul_epilogue
// CHECK-LABEL: func.func @product_read(
// CHECK-NOT: graph.matmul_epilogue
func.func @bias(%x: tensor<32x64xbf16>, %w: tensor<64x16xbf16>, %b: tensor<16xf32>) -> (tensor<2x16x2x8xbf16>, tensor<2x2x16xf32>) {
  %0 = graph.matmul %x, %w : (tensor<32x64xbf16>, tensor<64x16xbf16>) -> tensor<32x16xbf16>
  %1 = graph.cast %0 : (tensor<32x16xbf16>) -> tensor<32x16xf32>
  %2 = graph.broadcast %b {dims = array<i64: 1>} : (tensor<16xf32>) -> tensor<32x16xf32>
  %3 = graph.add %1, %2 : tensor<32x16xf32>
  %4 = graph.reshape %3 : (tensor<32x16xf32>) -> tensor<2x16x2x8xf32>
  %5 = graph.cast %4 : (tensor<2x16x2x8xf32>) -> tensor<2x16x2x8xbf16>
  %o, %s = graph.attention %5, %5, %5 {scale = 1.0 : f64} : (tensor<2x16x2x8xbf16>, tensor<2x16x2x8xbf16>, tensor<2x16x2x8xbf16>) -> (tensor<2x16x2x8xbf16>, tensor<2x2x16xf32>)
  return %o, %s : tensor<2x16x2x8xbf16>, tensor<2x2x16xf32>
}
func.func @kernel(%x: tensor<32x64xbf16>, %w: tensor<64x16xbf16>, %b: tensor<16xf32>, %r: tensor<32x16xf32>) -> tensor<32x16xf32> {
  %0 = graph.matmul %x, %w : (tensor<32x64xbf16>, tensor<64x16xbf16>) -> tensor<32x16xbf16>
  %1 = graph.cast %0 : (tensor<32x16xbf16>) -> tensor<32x16xf32>
  %2 = graph.broadcast %b {dims = array<i64: 1>} : (tensor<16xf32>) -> tensor<32x16xf32>
  %3 = graph.add %1, %2 : tensor<32x16xf32>
  %4 = graph.add %3, %r : tensor<32x16xf32>
  return %4 : tensor<32x16xf32>
}
func.func @sizes(%x: tensor<32x60xbf16>, %w: tensor<60x16xbf16>, %b: tensor<16xf32>) -> tensor<32x16xbf16> {
  %0 = graph.matmul %x, %w : (tensor<32x60xbf16>, tensor<60x16xbf16>) -> tensor<32x16xbf16>
  %1 = graph.cast %0 : (tensor<32x16xbf16>) -> tensor<32x16xf32>
  %2 = graph.broadcast %b {dims = array<i64: 1>} : (tensor<16xf32>) -> tensor<32x16xf32>
  %3 = graph.add %1, %2 : tensor<32x16xf32>
  %4 = graph.relu %3 : tensor<32x16xf32>
  %5 = graph.cast %4 : (tensor<32x16xf32>) -> tensor<32x16xbf16>
  return %5 : tensor<32x16xbf16>
}
func.func @product_read(%x: tensor<32x64xbf16>, %w: tensor<64x16xbf16>, %b: tensor<16xf32>) -> (tensor<32x16xbf16>, tensor<32x16xbf16>) {
  %0 = graph.matmul %x, %w : (tensor<32x64xbf16>, tensor<64x16xbf16>) -> tensor<32x16xbf16>
  %1 = graph.cast %0 : (tensor<32x16xbf16>) -> tensor<32x16xf32>
  %2 = graph.broadcast %b {dims = array<i64: 1>} : (tensor<16xf32>) -> tensor<32x16xf32>
  %3 = graph.add %1, %2 : tensor<32x16xf32>
  %4 = graph.relu %3 : tensor<32x16xf32>
  %5 = graph.cast %4 : (tensor<32x16xf32>) -> tensor<32x16xbf16>
  return %5, %0 : tensor<32x16xbf16>, tensor<32x16xbf16>
}

// -----

// The gradient of a bias sums an operand of the weight's gradient, for both layouts of the weight; a sum that is used
// before the matmul is not fused.
// CHECK-LABEL: func.func @sums(
// CHECK: %[[L:.*]], %[[SL:.*]] = graph.matmul_epilogue sum_lhs %[[G:.*]], %arg0 {transpose_lhs} : {{.*}} -> (tensor<16x64xbf16>, tensor<16xbf16>)
// CHECK: %{{.*}} = graph.cast %[[SL]] : (tensor<16xbf16>) -> tensor<16xf32>
// CHECK: %[[R:.*]], %[[SR:.*]] = graph.matmul_epilogue sum_rhs %arg0, %{{.*}} {transpose_lhs} : {{.*}} -> (tensor<64x24xbf16>, tensor<24xbf16>)
// CHECK-NOT: graph.reduce_sum
// CHECK-LABEL: func.func @early(
// CHECK: graph.reduce_sum
// CHECK-NOT: graph.matmul_epilogue
func.func @sums(%x: tensor<32x64xbf16>, %g: tensor<4x8x16xf32>, %h: tensor<32x24xf32>) -> (tensor<16x64xbf16>, tensor<64x24xbf16>, tensor<16xf32>, tensor<24xf32>) {
  %0 = graph.reduce_sum %g {dims = array<i64: 0, 1>} : (tensor<4x8x16xf32>) -> tensor<16xf32>
  %1 = graph.reshape %g : (tensor<4x8x16xf32>) -> tensor<32x16xf32>
  %2 = graph.cast %1 : (tensor<32x16xf32>) -> tensor<32x16xbf16>
  %3 = graph.matmul %2, %x {transpose_lhs} : (tensor<32x16xbf16>, tensor<32x64xbf16>) -> tensor<16x64xbf16>
  %4 = graph.reduce_sum %h {dims = array<i64: 0>} : (tensor<32x24xf32>) -> tensor<24xf32>
  %5 = graph.cast %h : (tensor<32x24xf32>) -> tensor<32x24xbf16>
  %6 = graph.matmul %x, %5 {transpose_lhs} : (tensor<32x64xbf16>, tensor<32x24xbf16>) -> tensor<64x24xbf16>
  return %3, %6, %0, %4 : tensor<16x64xbf16>, tensor<64x24xbf16>, tensor<16xf32>, tensor<24xf32>
}
func.func @early(%x: tensor<32x64xbf16>, %h: tensor<32x24xf32>) -> (tensor<64x24xbf16>, tensor<24xf32>) {
  %0 = graph.reduce_sum %h {dims = array<i64: 0>} : (tensor<32x24xf32>) -> tensor<24xf32>
  %1 = graph.neg %0 : tensor<24xf32>
  %2 = graph.cast %h : (tensor<32x24xf32>) -> tensor<32x24xbf16>
  %3 = graph.matmul %x, %2 {transpose_lhs} : (tensor<32x64xbf16>, tensor<32x24xbf16>) -> tensor<64x24xbf16>
  return %3, %1 : tensor<64x24xbf16>, tensor<24xf32>
}

// -----

// With TF32 nothing is rounded; without it matmuls are not fused.
// CHECK-LABEL: func.func @tf32(
// CHECK: %[[Y:.*]] = graph.matmul_epilogue relu %arg0, %arg1, %arg2 {tf32} : {{.*}} -> tensor<32x16xf32>
// CHECK-NEXT: graph.matmul %[[Y]], %arg3 {tf32}
// CHECK-LABEL: func.func @fp32(
// CHECK-NOT: graph.matmul_epilogue
func.func @tf32(%x: tensor<32x64xf32>, %w: tensor<64x16xf32>, %b: tensor<16xf32>, %v: tensor<16x8xf32>) -> tensor<32x8xf32> {
  %0 = graph.matmul %x, %w {tf32} : (tensor<32x64xf32>, tensor<64x16xf32>) -> tensor<32x16xf32>
  %1 = graph.broadcast %b {dims = array<i64: 1>} : (tensor<16xf32>) -> tensor<32x16xf32>
  %2 = graph.add %0, %1 : tensor<32x16xf32>
  %3 = graph.relu %2 : tensor<32x16xf32>
  %4 = graph.matmul %3, %v {tf32} : (tensor<32x16xf32>, tensor<16x8xf32>) -> tensor<32x8xf32>
  return %4 : tensor<32x8xf32>
}
func.func @fp32(%x: tensor<32x64xf32>, %w: tensor<64x16xf32>, %b: tensor<16xf32>, %v: tensor<16x8xf32>) -> tensor<32x8xf32> {
  %0 = graph.matmul %x, %w : (tensor<32x64xf32>, tensor<64x16xf32>) -> tensor<32x16xf32>
  %1 = graph.broadcast %b {dims = array<i64: 1>} : (tensor<16xf32>) -> tensor<32x16xf32>
  %2 = graph.add %0, %1 : tensor<32x16xf32>
  %3 = graph.relu %2 : tensor<32x16xf32>
  %4 = graph.matmul %3, %v : (tensor<32x16xf32>, tensor<16x8xf32>) -> tensor<32x8xf32>
  return %4 : tensor<32x8xf32>
}
