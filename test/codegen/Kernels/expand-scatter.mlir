// RUN: divisi-opt %s --expand-scatter | FileCheck %s

// The gradient of a top-k: each element is compared with both places, in their order.
// CHECK-LABEL: @few
// CHECK-DAG: %[[P:.*]] = graph.iota {dim = 1 : i64} : tensor<64x8xi64>
// CHECK-NOT: graph.scatter_elements
// CHECK: %[[A:.*]] = graph.compare eq %{{.*}}, %[[P]]
// CHECK: %[[S:.*]] = graph.add %arg0, %{{.*}} : tensor<64x8xf32>
// CHECK: %[[X:.*]] = graph.select %[[A]], %[[S]], %arg0
// CHECK: %[[B:.*]] = graph.compare eq %{{.*}}, %[[P]]
// CHECK: %[[T:.*]] = graph.add %[[X]], %{{.*}} : tensor<64x8xf32>
// CHECK: %[[Y:.*]] = graph.select %[[B]], %[[T]], %[[X]]
// CHECK: return %[[Y]]
func.func @few(%x: tensor<64x8xf32>, %i: tensor<64x2xi64>, %u: tensor<64x2xf32>) -> tensor<64x8xf32> {
  %0 = graph.scatter_elements %x, %i, %u {dim = 1 : i64, combine = #graph<combine add>} : (tensor<64x8xf32>, tensor<64x2xi64>, tensor<64x2xf32>) -> tensor<64x8xf32>
  return %0 : tensor<64x8xf32>
}

// CHECK-LABEL: @rows
// CHECK: graph.scatter_add %arg0, %arg1, %arg2 {dim = 0 : i64} : (tensor<300xf32>, tensor<700xi64>, tensor<700xf32>) -> tensor<300xf32>
func.func @rows(%x: tensor<300xf32>, %i: tensor<700xi64>, %u: tensor<700xf32>) -> tensor<300xf32> {
  %0 = graph.scatter_elements %x, %i, %u {dim = 0 : i64, combine = #graph<combine add>} : (tensor<300xf32>, tensor<700xi64>, tensor<700xf32>) -> tensor<300xf32>
  return %0 : tensor<300xf32>
}

// CHECK-LABEL: @slices
// CHECK: graph.scatter_add %{{.*}}, %{{.*}}, %{{.*}} {dim = 0 : i64} : (tensor<24x5xf32>, tensor<9xi64>, tensor<9x5xf32>) -> tensor<24x5xf32>
func.func @slices(%x: tensor<4x6x5xf32>, %i: tensor<9x2xi64>, %u: tensor<9x5xf32>) -> tensor<4x6x5xf32> {
  %0 = graph.scatter_nd %x, %i, %u {batch_dims = 0 : i64, combine = #graph<combine add>} : (tensor<4x6x5xf32>, tensor<9x2xi64>, tensor<9x5xf32>) -> tensor<4x6x5xf32>
  return %0 : tensor<4x6x5xf32>
}

// Lines that not all have indices, and many indices, are left to as many threads as there are lines.
// CHECK-LABEL: @lines
// CHECK: graph.scatter_elements
// CHECK: graph.scatter_elements
func.func @lines(%x: tensor<64x80xf32>, %i: tensor<60x2xi64>, %u: tensor<60x2xf32>, %j: tensor<64x9xi64>, %v: tensor<64x9xf32>) -> tensor<64x80xf32> {
  %0 = graph.scatter_elements %x, %i, %u {dim = 1 : i64, combine = #graph<combine add>} : (tensor<64x80xf32>, tensor<60x2xi64>, tensor<60x2xf32>) -> tensor<64x80xf32>
  %1 = graph.scatter_elements %0, %j, %v {dim = 1 : i64, combine = #graph<combine add>} : (tensor<64x80xf32>, tensor<64x9xi64>, tensor<64x9xf32>) -> tensor<64x80xf32>
  return %1 : tensor<64x80xf32>
}
