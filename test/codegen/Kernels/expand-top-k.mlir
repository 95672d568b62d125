// RUN: divisi-opt %s --expand-top-k | FileCheck %s

// The rank of each of eight experts among the others, and the two that come first.
// CHECK-LABEL: @experts
// CHECK-NOT: graph.top_k
// CHECK: graph.compare gt
// CHECK: %[[P:.*]] = graph.reduce_sum %{{.*}} {dims = array<i64: 2>} : (tensor<64x8x8xi64>) -> tensor<64x8xi64>
// CHECK: %[[V:.*]] = graph.reduce_max %{{.*}} {dims = array<i64: 1>} : (tensor<64x8x2xf32>) -> tensor<64x2xf32>
// CHECK: %[[I:.*]] = graph.reduce_sum %{{.*}} {dims = array<i64: 1>} : (tensor<64x8x2xi64>) -> tensor<64x2xi64>
// CHECK: return %[[V]], %[[I]]
func.func @experts(%x: tensor<64x8xf32>) -> (tensor<64x2xf32>, tensor<64x2xi64>) {
  %0:2 = graph.top_k %x {dim = 1 : i64, k = 2 : i64} : (tensor<64x8xf32>) -> (tensor<64x2xf32>, tensor<64x2xi64>)
  return %0#0, %0#1 : tensor<64x2xf32>, tensor<64x2xi64>
}

// CHECK-LABEL: @words
// CHECK: graph.top_k
func.func @words(%x: tensor<4x50257xf32>) -> (tensor<4x2xf32>, tensor<4x2xi64>) {
  %0:2 = graph.top_k %x {dim = 1 : i64, k = 2 : i64} : (tensor<4x50257xf32>) -> (tensor<4x2xf32>, tensor<4x2xi64>)
  return %0#0, %0#1 : tensor<4x2xf32>, tensor<4x2xi64>
}
