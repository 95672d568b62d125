// RUN: divisi-opt %s --canonicalize | FileCheck %s

// CHECK-LABEL: func.func @same
// CHECK-NEXT: return %arg0, %arg0, %arg0, %arg0
func.func @same(%x: tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>) {
  %0 = graph.reshape %x : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %1 = graph.transpose %x {permutation = array<i64: 0, 1>} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %2 = graph.broadcast %x {dims = array<i64: 0, 1>} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %3 = graph.slice %x {starts = array<i64: 0, 0>, steps = array<i64: 1, 1>} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0, %1, %2, %3 : tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>
}

// A reversal has the same type, but is not the same.
// CHECK-LABEL: func.func @reversed
// CHECK-NEXT: graph.slice
func.func @reversed(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.slice %x {starts = array<i64: 3>, steps = array<i64: -1>} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// So does a transposition of a square.
// CHECK-LABEL: func.func @square
// CHECK-NEXT: graph.transpose %arg0 {permutation = array<i64: 1, 0>}
func.func @square(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = graph.transpose %x {permutation = array<i64: 1, 0>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// CHECK-LABEL: func.func @chains
// CHECK-NEXT: %[[R:.*]] = graph.reshape %arg0 : (tensor<2x3x4xf32>) -> tensor<24xf32>
// CHECK-NEXT: %[[T:.*]] = graph.transpose %arg0 {permutation = array<i64: 2, 1, 0>} : (tensor<2x3x4xf32>) -> tensor<4x3x2xf32>
// CHECK-NEXT: return %[[R]], %[[T]]
func.func @chains(%x: tensor<2x3x4xf32>) -> (tensor<24xf32>, tensor<4x3x2xf32>) {
  %0 = graph.reshape %x : (tensor<2x3x4xf32>) -> tensor<6x4xf32>
  %1 = graph.reshape %0 : (tensor<6x4xf32>) -> tensor<24xf32>
  %2 = graph.transpose %x {permutation = array<i64: 1, 2, 0>} : (tensor<2x3x4xf32>) -> tensor<3x4x2xf32>
  %3 = graph.transpose %2 {permutation = array<i64: 1, 0, 2>} : (tensor<3x4x2xf32>) -> tensor<4x3x2xf32>
  return %1, %3 : tensor<24xf32>, tensor<4x3x2xf32>
}

// CHECK-LABEL: func.func @constants
// CHECK-DAG: %[[B:.*]] = graph.constant dense<1.000000e+00> : tensor<4x6xf32>
// CHECK-DAG: %[[R:.*]] = graph.constant dense<{{\[\[}}1, 2], [3, 4]]> : tensor<2x2xi64>
// CHECK-DAG: %[[S:.*]] = graph.constant dense<1.000000e+00> : tensor<2xf32>
// CHECK: return %[[B]], %[[R]], %[[S]]
func.func @constants() -> (tensor<4x6xf32>, tensor<2x2xi64>, tensor<2xf32>) {
  %one = graph.constant dense<1.0> : tensor<f32>
  %list = graph.constant dense<[1, 2, 3, 4]> : tensor<4xi64>
  %row = graph.constant dense<1.0> : tensor<6xf32>
  %0 = graph.broadcast %one {dims = array<i64>} : (tensor<f32>) -> tensor<4x6xf32>
  %1 = graph.reshape %list : (tensor<4xi64>) -> tensor<2x2xi64>
  %2 = graph.slice %row {starts = array<i64: 1>, steps = array<i64: 3>} : (tensor<6xf32>) -> tensor<2xf32>
  return %0, %1, %2 : tensor<4x6xf32>, tensor<2x2xi64>, tensor<2xf32>
}
