// RUN: divisi-opt %s | divisi-opt | FileCheck %s

// CHECK-LABEL: func.func @pools
func.func @pools(%x: tensor<2x4x8x8xf32>) -> (tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>) {
  // CHECK: graph.max_pool %arg0 {dilations = array<i64: 1, 1, 1, 1>, pads_low = array<i64: 0, 0, 1, 0>,
  // CHECK-SAME: strides = array<i64: 1, 1, 2, 2>, window = array<i64: 1, 1, 3, 2>}
  // CHECK-SAME: : (tensor<2x4x8x8xf32>) -> (tensor<2x4x4x4xf32>, tensor<2x4x4x4xi32>)
  %v, %p = graph.max_pool %x {dilations = array<i64: 1, 1, 1, 1>, pads_low = array<i64: 0, 0, 1, 0>, strides = array<i64: 1, 1, 2, 2>, window = array<i64: 1, 1, 3, 2>} : (tensor<2x4x8x8xf32>) -> (tensor<2x4x4x4xf32>, tensor<2x4x4x4xi32>)
  // CHECK: graph.max_pool_grad %{{.*}}, %{{.*}} {{.*}} : (tensor<2x4x4x4xf32>, tensor<2x4x4x4xi32>) -> tensor<2x4x8x8xf32>
  %0 = graph.max_pool_grad %v, %p {dilations = array<i64: 1, 1, 1, 1>, pads_low = array<i64: 0, 0, 1, 0>, strides = array<i64: 1, 1, 2, 2>, window = array<i64: 1, 1, 3, 2>} : (tensor<2x4x4x4xf32>, tensor<2x4x4x4xi32>) -> tensor<2x4x8x8xf32>
  // CHECK: graph.sum_pool %arg0 {{.*}} : (tensor<2x4x8x8xf32>) -> tensor<2x4x4x4xf32>
  %1 = graph.sum_pool %x {dilations = array<i64: 1, 1, 1, 1>, pads_low = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1, 2, 2>, window = array<i64: 1, 1, 2, 2>} : (tensor<2x4x8x8xf32>) -> tensor<2x4x4x4xf32>
  // CHECK: graph.sum_pool_grad %{{.*}} {{.*}} : (tensor<2x4x4x4xf32>) -> tensor<2x4x8x8xf32>
  %2 = graph.sum_pool_grad %1 {dilations = array<i64: 1, 1, 1, 1>, pads_low = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1, 2, 2>, window = array<i64: 1, 1, 2, 2>} : (tensor<2x4x4x4xf32>) -> tensor<2x4x8x8xf32>
  return %0, %2 : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>
}
