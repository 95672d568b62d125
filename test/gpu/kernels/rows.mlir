// Kernels over rows: softmax and layer norm of 65,536 rows of 1,024 numbers, and their gradients.
// RUN: divisi compile %s --target cuda --emit exec | FileCheck %s
// CHECK: exec.kernel rows 65536
// CHECK: graph.reduce_sum
// CHECK: exec.kernel rows 65536
module attributes {graph.model = "rows"} {
  func.func @loss(%w: tensor<65536x1024xf32> {graph.parameter = "w"}, %s: tensor<1024xf32> {graph.parameter = "s"}, %b: tensor<1024xf32> {graph.parameter = "b"},
                  %x: tensor<1xf32> {graph.input = "x"}) -> (tensor<f32> {graph.loss}) {
    %0 = graph.layer_norm %w, %s, %b {dim = 1 : i64, epsilon = 1.0e-5 : f64} : (tensor<65536x1024xf32>, tensor<1024xf32>, tensor<1024xf32>) -> tensor<65536x1024xf32>
    %1 = graph.softmax %0 {dim = 1 : i64} : (tensor<65536x1024xf32>) -> tensor<65536x1024xf32>
    %2 = graph.mul %1, %w : tensor<65536x1024xf32>
    %3 = graph.reduce_sum %2 {dims = array<i64: 0, 1>} : (tensor<65536x1024xf32>) -> tensor<f32>
    %4 = graph.reshape %x : (tensor<1xf32>) -> tensor<f32>
    %5 = graph.mul %3, %4 : tensor<f32>
    return %5 : tensor<f32>
  }
}
