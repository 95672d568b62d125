// RUN: divisi-opt %s | divisi-opt | FileCheck %s

// CHECK-LABEL: func.func @random
func.func @random(%x: tensor<4x6xf32>, %seed: tensor<i64>, %step: tensor<i64>) -> (tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>) {
  // CHECK: graph.random_uniform %arg1, %arg2 {stream = 3 : i64} : (tensor<i64>, tensor<i64>) -> tensor<4x6xf32>
  %0 = graph.random_uniform %seed, %step {stream = 3 : i64} : (tensor<i64>, tensor<i64>) -> tensor<4x6xf32>
  // CHECK: graph.dropout %arg0 {ratio = 2.500000e-01 : f64, stream = 1 : i64} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %1 = graph.dropout %x {ratio = 0.25 : f64, stream = 1 : i64} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  // CHECK: graph.dropout %arg0, %arg1, %arg2 {ratio = 2.500000e-01 : f64, stream = 1 : i64}
  %2 = graph.dropout %x, %seed, %step {ratio = 0.25 : f64, stream = 1 : i64} : (tensor<4x6xf32>, tensor<i64>, tensor<i64>) -> tensor<4x6xf32>
  // CHECK: graph.random_uniform %arg1, %arg2 {keeps_seed, stream = -1 : i64}
  %3 = graph.random_uniform %seed, %step {keeps_seed, stream = -1 : i64} : (tensor<i64>, tensor<i64>) -> tensor<4x6xf32>
  return %0, %1, %2 : tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>
}
