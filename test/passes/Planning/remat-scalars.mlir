// Splat constants and broadcast scalars are no memory that a segment could save, on one device as in a plan: both recompute
// the same segments.
// RUN: divisi compile %s --remat all --emit exec 2>&1 | FileCheck %s
// RUN: divisi compile %s --remat all --mesh data=2 --emit plan 2>&1 | FileCheck %s
// CHECK: warning: no segment of the forward pass is recomputed
// CHECK-NOT: recomputed
// CHECK-NOT: dist.remat

func.func @loss(%w: tensor<8x12xf32> {graph.parameter = "w"}, %x: tensor<6x8xf32> {graph.input = "x"}) -> (tensor<f32> {graph.loss}) {
  %h = graph.matmul %x, %w : (tensor<6x8xf32>, tensor<8x12xf32>) -> tensor<6x12xf32> loc("h")
  %s = graph.softmax %h {dim = 1 : i64} : (tensor<6x12xf32>) -> tensor<6x12xf32> loc("s")
  %m = graph.reduce_sum %s {dims = array<i64: 0, 1>} : (tensor<6x12xf32>) -> tensor<f32> loc("m")
  %b = graph.broadcast %m {dims = array<i64>} : (tensor<f32>) -> tensor<6x12xf32> loc("b")
  %y = graph.mul %b, %h : tensor<6x12xf32> loc("y")
  %q = graph.mul %y, %y : tensor<6x12xf32> loc("q")
  %l = graph.reduce_sum %q {dims = array<i64: 0, 1>} : (tensor<6x12xf32>) -> tensor<f32> loc("l")
  return %l : tensor<f32>
}
