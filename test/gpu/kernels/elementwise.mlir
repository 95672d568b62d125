// Steps whose kernels only move data: an elementwise loss of 64 million elements, and the update.
// RUN: divisi compile %s --target cuda --emit exec | FileCheck %s
// CHECK: exec.kernel{{.*}} tensor<16384x4096xf32>
// CHECK: graph.reduce_sum
// CHECK: exec.kernel{{.*}} -> tensor<16384x4096xf32>
module attributes {graph.model = "elementwise"} {
  func.func @loss(%w: tensor<16384x4096xf32> {graph.parameter = "w"}, %x: tensor<1xf32> {graph.input = "x"}) -> (tensor<f32> {graph.loss}) {
    %0 = graph.tanh %w : tensor<16384x4096xf32>
    %1 = graph.mul %0, %w : tensor<16384x4096xf32>
    %2 = graph.reduce_sum %1 {dims = array<i64: 0, 1>} : (tensor<16384x4096xf32>) -> tensor<f32>
    %3 = graph.reshape %x : (tensor<1xf32>) -> tensor<f32>
    %4 = graph.mul %2, %3 : tensor<f32>
    return %4 : tensor<f32>
  }
}
