// 1,001 classes of 801 numbers, which tensor cores read in 1,024 rows of 832: as many operations as it takes for that.
// RUN: divisi compile %s --target cuda --precision bf16 --emit exec | FileCheck %s
// CHECK: graph.matmul {{.*}} : (tensor<640x832xbf16>, tensor<1024x832xbf16>) -> (tensor<640x1024xbf16>
module attributes {graph.model = "aligned"} {
  func.func @loss(%w: tensor<1001x801xf32> {graph.parameter = "classes"}, %x: tensor<640x801xf32> {graph.input = "x"},
                  %t: tensor<640xi64> {graph.input = "t"}) -> (tensor<f32> {graph.loss}) {
    %0 = graph.matmul %x, %w {transpose_rhs} : (tensor<640x801xf32>, tensor<1001x801xf32>) -> tensor<640x1001xf32>
    %1 = graph.cross_entropy %0, %t : (tensor<640x1001xf32>, tensor<640xi64>) -> tensor<640xf32>
    %2 = graph.reduce_sum %1 {dims = array<i64: 0>} : (tensor<640xf32>) -> tensor<f32>
    %3 = graph.constant dense<640.0> : tensor<f32>
    %4 = graph.div %2, %3 : tensor<f32>
    return %4 : tensor<f32>
  }
}
