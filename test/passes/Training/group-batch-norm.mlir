// RUN: divisi-opt %s --group-batch-norm=groups=2 | FileCheck %s
// RUN: divisi-opt %s --group-batch-norm=groups=2 --decompose | FileCheck %s --check-prefix=PARTS

// CHECK: graph.batch_norm {{.*}} {dim = 1 : i64, epsilon = {{.*}}, groups = 2 : i64}

// Each half has its own statistics; their means are reported.
// PARTS: %[[X:.*]] = graph.reshape %arg1 : (tensor<8x4x6xf32>) -> tensor<2x4x4x6xf32>
// PARTS: %[[S:.*]] = graph.reduce_sum %[[X]] {dims = array<i64: 1, 3>} : {{.*}} -> tensor<2x4xf32>
// PARTS: %[[ONE:.*]] = graph.constant dense<0.0416666679> : tensor<2x4xf32>
// PARTS: %[[MEAN:.*]] = graph.mul %[[S]], %[[ONE]]
// PARTS: %[[Y:.*]] = graph.reshape %{{.*}} : (tensor<2x4x4x6xf32>) -> tensor<8x4x6xf32>
// PARTS: %[[ALL:.*]] = graph.reduce_sum %[[MEAN]] {dims = array<i64: 0>} : (tensor<2x4xf32>) -> tensor<4xf32>
// PARTS: %[[HALF:.*]] = graph.constant dense<5.000000e-01> : tensor<4xf32>
// PARTS: graph.mul %[[ALL]], %[[HALF]]
func.func @loss(%w: tensor<4xf32> {graph.parameter = "w"}, %x: tensor<8x4x6xf32> {graph.input = "x"})
    -> (tensor<f32> {graph.loss}, tensor<4xf32>, tensor<4xf32>) {
  %y:3 = graph.batch_norm %x, %w, %w, %w, %w {dim = 1 : i64, epsilon = 1.0e-5 : f64}
      : (tensor<8x4x6xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
      -> (tensor<8x4x6xf32>, tensor<4xf32>, tensor<4xf32>)
  %l = graph.reduce_sum %y#0 {dims = array<i64: 0, 1, 2>} : (tensor<8x4x6xf32>) -> tensor<f32>
  return %l, %y#1, %y#2 : tensor<f32>, tensor<4xf32>, tensor<4xf32>
}
