// RUN: divisi-opt %s | divisi-opt | FileCheck %s

// CHECK-LABEL: func.func @reductions
func.func @reductions(%x: tensor<4x6x5xf32>) -> (tensor<6xf32>, tensor<f32>, tensor<4x5xi64>) {
  // CHECK: graph.reduce_sum %arg0 {dims = array<i64: 0, 2>} : (tensor<4x6x5xf32>) -> tensor<6xf32>
  %0 = graph.reduce_sum %x {dims = array<i64: 0, 2>} : (tensor<4x6x5xf32>) -> tensor<6xf32>
  // CHECK: graph.reduce_max %{{.*}} {dims = array<i64: 0>} : (tensor<6xf32>) -> tensor<f32>
  %1 = graph.reduce_max %0 {dims = array<i64: 0>} : (tensor<6xf32>) -> tensor<f32>
  // CHECK: graph.argmin %arg0 {dim = 1 : i64, last} : (tensor<4x6x5xf32>) -> tensor<4x5xi64>
  %2 = graph.argmin %x {dim = 1 : i64, last} : (tensor<4x6x5xf32>) -> tensor<4x5xi64>
  return %0, %1, %2 : tensor<6xf32>, tensor<f32>, tensor<4x5xi64>
}
