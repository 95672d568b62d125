// A bias of attention scores that is trained, such as Swin's of relative positions, gets its gradient: fused attention has none for it. One
// that is frozen is a mask of fused attention. As programs are compiled, from the model on.
// RUN: divisi compile %s --target cuda --precision bf16 --emit train | FileCheck %s
// RUN: sed 's/{graph.parameter = "bias"}/{graph.frozen, graph.parameter = "bias"}/' %s > %t.mlir
// RUN: divisi compile %t.mlir --target cuda --precision bf16 --emit train | FileCheck %s --check-prefix=FROZEN
// CHECK-LABEL: func.func @train
// CHECK-NOT: graph.attention
// CHECK: graph.reduce_sum %{{.*}} {dims = array<i64: 0>} : (tensor<2x4x16x16xf32>) -> tensor<4x16x16xf32>
// CHECK-NOT: graph.attention
// FROZEN-LABEL: func.func @train
// FROZEN: graph.attention
func.func @loss(%x: tensor<32x32xf32> {graph.input = "x"}, %w: tensor<32x32xf32> {graph.parameter = "w"},
                %bias: tensor<4x16x16xf32> {graph.parameter = "bias"}) -> (tensor<f32> {graph.loss}) {
  %y = graph.matmul %x, %w : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %r = graph.reshape %y : (tensor<32x32xf32>) -> tensor<2x16x4x8xf32>
  %q = graph.transpose %r {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x16x4x8xf32>) -> tensor<2x4x16x8xf32>
  %s = graph.matmul %q, %q {transpose_rhs} : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x16xf32>
  %b = graph.broadcast %bias {dims = array<i64: 1, 2, 3>} : (tensor<4x16x16xf32>) -> tensor<2x4x16x16xf32>
  %a = graph.add %s, %b : tensor<2x4x16x16xf32>
  %p = graph.softmax %a {dim = 3 : i64} : (tensor<2x4x16x16xf32>) -> tensor<2x4x16x16xf32>
  %o = graph.matmul %p, %q : (tensor<2x4x16x16xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32>
  %t = graph.mul %o, %o : tensor<2x4x16x8xf32>
  %l = graph.reduce_sum %t {dims = array<i64: 0, 1, 2, 3>} : (tensor<2x4x16x8xf32>) -> tensor<f32>
  return %l : tensor<f32>
}
