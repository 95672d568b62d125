// RUN: divisi-opt %s | divisi-opt | FileCheck %s

// CHECK-LABEL: func.func @rows
func.func @rows(%x: tensor<4x6xf32>, %i: tensor<2x3xi64>) -> tensor<4x6xf32> {
  // CHECK: graph.gather %arg0, %arg1 {dim = 0 : i64} : (tensor<4x6xf32>, tensor<2x3xi64>) -> tensor<2x3x6xf32>
  %0 = graph.gather %x, %i {dim = 0 : i64} : (tensor<4x6xf32>, tensor<2x3xi64>) -> tensor<2x3x6xf32>
  // CHECK: graph.scatter_add %arg0, %arg1, %{{.*}} {dim = 0 : i64} : (tensor<4x6xf32>, tensor<2x3xi64>, tensor<2x3x6xf32>) -> tensor<4x6xf32>
  %1 = graph.scatter_add %x, %i, %0 {dim = 0 : i64} : (tensor<4x6xf32>, tensor<2x3xi64>, tensor<2x3x6xf32>) -> tensor<4x6xf32>
  return %1 : tensor<4x6xf32>
}

// CHECK-LABEL: func.func @elements
func.func @elements(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  // CHECK: graph.top_k %arg0 {dim = 1 : i64, k = 2 : i64, smallest} : (tensor<4x6xf32>) -> (tensor<4x2xf32>, tensor<4x2xi64>)
  %v, %i = graph.top_k %x {dim = 1 : i64, k = 2 : i64, smallest} : (tensor<4x6xf32>) -> (tensor<4x2xf32>, tensor<4x2xi64>)
  // CHECK: graph.gather_elements %arg0, %{{.*}} {dim = 1 : i64} : (tensor<4x6xf32>, tensor<4x2xi64>) -> tensor<4x2xf32>
  %0 = graph.gather_elements %x, %i {dim = 1 : i64} : (tensor<4x6xf32>, tensor<4x2xi64>) -> tensor<4x2xf32>
  // CHECK: graph.scatter_elements %arg0, %{{.*}}, %{{.*}} {combine = #graph<combine max>, dim = 1 : i64}
  %1 = graph.scatter_elements %x, %i, %0 {combine = #graph<combine max>, dim = 1 : i64} : (tensor<4x6xf32>, tensor<4x2xi64>, tensor<4x2xf32>) -> tensor<4x6xf32>
  // CHECK: graph.cumsum %{{.*}} {dim = 1 : i64, exclusive, reverse} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %2 = graph.cumsum %1 {dim = 1 : i64, exclusive, reverse} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %2 : tensor<4x6xf32>
}

// CHECK-LABEL: func.func @nd
func.func @nd(%x: tensor<4x6x5xf32>, %i: tensor<4x3x1xi64>) -> tensor<4x6x5xf32> {
  // CHECK: graph.gather_nd %arg0, %arg1 {batch_dims = 1 : i64} : (tensor<4x6x5xf32>, tensor<4x3x1xi64>) -> tensor<4x3x5xf32>
  %0 = graph.gather_nd %x, %i {batch_dims = 1 : i64} : (tensor<4x6x5xf32>, tensor<4x3x1xi64>) -> tensor<4x3x5xf32>
  // CHECK: graph.scatter_nd %arg0, %arg1, %{{.*}} {batch_dims = 1 : i64, combine = #graph<combine add>}
  %1 = graph.scatter_nd %x, %i, %0 {batch_dims = 1 : i64, combine = #graph<combine add>} : (tensor<4x6x5xf32>, tensor<4x3x1xi64>, tensor<4x3x5xf32>) -> tensor<4x6x5xf32>
  return %1 : tensor<4x6x5xf32>
}
