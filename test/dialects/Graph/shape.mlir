// RUN: divisi-opt %s | divisi-opt | FileCheck %s

// CHECK-LABEL: func.func @shape
func.func @shape(%x: tensor<2x4x6xf32>, %b: tensor<6x1xf32>) -> tensor<2x7x6xf32> {
  // CHECK: graph.constant dense<[1, 2, 3]> : tensor<3xi64>
  %c = graph.constant dense<[1, 2, 3]> : tensor<3xi64>
  // CHECK: graph.iota {dim = 1 : i64} : tensor<2x4xi64>
  %i = graph.iota {dim = 1 : i64} : tensor<2x4xi64>
  // CHECK: graph.broadcast %arg1 {dims = array<i64: 1, 2>} : (tensor<6x1xf32>) -> tensor<4x6x5xf32>
  %0 = graph.broadcast %b {dims = array<i64: 1, 2>} : (tensor<6x1xf32>) -> tensor<4x6x5xf32>
  // CHECK: graph.reshape %arg0 : (tensor<2x4x6xf32>) -> tensor<8x6xf32>
  %1 = graph.reshape %x : (tensor<2x4x6xf32>) -> tensor<8x6xf32>
  // CHECK: graph.transpose %arg0 {permutation = array<i64: 2, 0, 1>} : (tensor<2x4x6xf32>) -> tensor<6x2x4xf32>
  %2 = graph.transpose %x {permutation = array<i64: 2, 0, 1>} : (tensor<2x4x6xf32>) -> tensor<6x2x4xf32>
  // CHECK: graph.slice %arg0 {starts = array<i64: 0, 3, 1>, steps = array<i64: 1, -1, 2>} : (tensor<2x4x6xf32>) -> tensor<2x3x3xf32>
  %3 = graph.slice %x {starts = array<i64: 0, 3, 1>, steps = array<i64: 1, -1, 2>} : (tensor<2x4x6xf32>) -> tensor<2x3x3xf32>
  // CHECK: graph.pad %{{.*}} {low = array<i64: 0, 3, 1>, steps = array<i64: 1, -1, 2>, value = 0.000000e+00 : f64} : (tensor<2x3x3xf32>) -> tensor<2x4x6xf32>
  %4 = graph.pad %3 {low = array<i64: 0, 3, 1>, steps = array<i64: 1, -1, 2>, value = 0.0 : f64} : (tensor<2x3x3xf32>) -> tensor<2x4x6xf32>
  // CHECK: graph.slice
  %5 = graph.slice %4 {starts = array<i64: 0, 0, 0>, steps = array<i64: 1, 1, 1>} : (tensor<2x4x6xf32>) -> tensor<2x3x6xf32>
  // CHECK: graph.concat %arg0, %{{.*}} {dim = 1 : i64} : (tensor<2x4x6xf32>, tensor<2x3x6xf32>) -> tensor<2x7x6xf32>
  %6 = graph.concat %x, %5 {dim = 1 : i64} : (tensor<2x4x6xf32>, tensor<2x3x6xf32>) -> tensor<2x7x6xf32>
  return %6 : tensor<2x7x6xf32>
}
