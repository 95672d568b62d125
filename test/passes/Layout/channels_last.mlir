// RUN: divisi-opt %s --channels-last --canonicalize --split-input-file | FileCheck %s

// Two convolutions with everything between them: one transpose of the input, one before the flattening.
// CHECK-LABEL: func.func @loss
// CHECK: graph.transpose %{{.*}} {permutation = array<i64: 0, 2, 3, 1>} : (tensor<2x3x8x8xf32>)
// CHECK-NEXT: graph.conv {{.*}}channels_last{{.*}} -> tensor<2x8x8x4xf32>
// CHECK: graph.batch_norm {{.*}}dim = 3
// CHECK: graph.relu {{.*}} : tensor<2x8x8x4xf32>
// CHECK: graph.max_pool {{.*}}window = array<i64: 1, 2, 2, 1>{{.*}} -> (tensor<2x4x4x4xf32>
// CHECK: graph.conv {{.*}}channels_last{{.*}} -> tensor<2x4x4x4xf32>
// CHECK: graph.add
// CHECK-NEXT: graph.add
// CHECK-NEXT: graph.transpose {{.*}} {permutation = array<i64: 0, 3, 1, 2>}
// CHECK-NEXT: graph.reshape {{.*}} -> tensor<2x64xf32>
// CHECK-NOT: graph.transpose
func.func @loss(%x: tensor<2x3x8x8xf32>, %w: tensor<4x3x3x3xf32>, %s: tensor<4xf32>, %b: tensor<4xf32>,
                %v: tensor<4x4x3x3xf32>) -> tensor<2x64xf32> {
  %0 = graph.conv %x, %w {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads_low = array<i64: 1, 1>, pads_high = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x8x8xf32>
  %1, %mean, %variance = graph.batch_norm %0, %s, %b {dim = 1 : i64, epsilon = 1.0e-5 : f64} : (tensor<2x4x8x8xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4x8x8xf32>, tensor<4xf32>, tensor<4xf32>)
  %2 = graph.relu %1 : tensor<2x4x8x8xf32>
  %3, %position = graph.max_pool %2 {window = array<i64: 1, 1, 2, 2>, strides = array<i64: 1, 1, 2, 2>, dilations = array<i64: 1, 1, 1, 1>, pads_low = array<i64: 0, 0, 0, 0>} : (tensor<2x4x8x8xf32>) -> (tensor<2x4x4x4xf32>, tensor<2x4x4x4xi32>)
  %4 = graph.conv %3, %v {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads_low = array<i64: 1, 1>, pads_high = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x4x4x4xf32>, tensor<4x4x3x3xf32>) -> tensor<2x4x4x4xf32>
  %5 = graph.broadcast %b {dims = array<i64: 1>} : (tensor<4xf32>) -> tensor<2x4x4x4xf32>
  %6 = graph.add %4, %5 : tensor<2x4x4x4xf32>
  %7 = graph.add %6, %3 : tensor<2x4x4x4xf32>
  %8 = graph.reshape %7 : (tensor<2x4x4x4xf32>) -> tensor<2x64xf32>
  return %8 : tensor<2x64xf32>
}

// -----

// A global mean needs no transpose after it: its result has no spatial dimensions.
// CHECK-LABEL: func.func @loss
// CHECK: graph.reduce_sum {{.*}} {dims = array<i64: 1, 2>} : (tensor<2x8x8x4xf32>) -> tensor<2x4xf32>
// CHECK-NOT: graph.transpose
func.func @loss(%x: tensor<2x3x8x8xf32>, %w: tensor<4x3x1x1xf32>) -> tensor<2x4xf32> {
  %0 = graph.conv %x, %w {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads_low = array<i64: 0, 0>, pads_high = array<i64: 0, 0>, groups = 1 : i64} : (tensor<2x3x8x8xf32>, tensor<4x3x1x1xf32>) -> tensor<2x4x8x8xf32>
  %1 = graph.reduce_sum %0 {dims = array<i64: 2, 3>} : (tensor<2x4x8x8xf32>) -> tensor<2x4xf32>
  return %1 : tensor<2x4xf32>
}

// -----

// Without a convolution nothing changes.
// CHECK-LABEL: func.func @loss
// CHECK-NEXT: graph.max_pool {{.*}} : (tensor<2x4x8x8xf32>)
// CHECK-NOT: graph.transpose
func.func @loss(%x: tensor<2x4x8x8xf32>) -> tensor<2x4x4x4xf32> {
  %0, %position = graph.max_pool %x {window = array<i64: 1, 1, 2, 2>, strides = array<i64: 1, 1, 2, 2>, dilations = array<i64: 1, 1, 1, 1>, pads_low = array<i64: 0, 0, 0, 0>} : (tensor<2x4x8x8xf32>) -> (tensor<2x4x4x4xf32>, tensor<2x4x4x4xi32>)
  return %0 : tensor<2x4x4x4xf32>
}

// -----

// Groups are of dimension 0: a batch norm with several is not moved onto an operand that has the batch elsewhere.
// CHECK-LABEL: func.func @groups
// CHECK: %[[T:.*]] = graph.transpose %arg0 {permutation = array<i64: 1, 2, 0>}
// CHECK: graph.batch_norm %[[T]], {{.*}}groups = 2 : i64
func.func @groups(%x: tensor<6x12x4xf32>, %s: tensor<4xf32>, %b: tensor<4xf32>, %w: tensor<5x4x3xf32>) -> tensor<12x5x4xf32> {
  %0 = graph.transpose %x {permutation = array<i64: 1, 2, 0>} : (tensor<6x12x4xf32>) -> tensor<12x4x6xf32>
  %1, %mean, %variance = graph.batch_norm %0, %s, %b {dim = 1 : i64, epsilon = 1.0e-5 : f64, groups = 2 : i64} : (tensor<12x4x6xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<12x4x6xf32>, tensor<4xf32>, tensor<4xf32>)
  %2 = graph.conv %1, %w {strides = array<i64: 1>, dilations = array<i64: 1>, pads_low = array<i64: 0>, pads_high = array<i64: 0>, groups = 1 : i64} : (tensor<12x4x6xf32>, tensor<5x4x3xf32>) -> tensor<12x5x4xf32>
  return %2 : tensor<12x5x4xf32>
}

// -----

// A scale of each image's channels (squeeze and excitation) is turned, and not the images.
// CHECK-LABEL: func.func @scaled
// CHECK: %[[C:.*]] = graph.conv
// CHECK: %[[S:.*]] = graph.transpose %arg2 {{.*}} -> tensor<2x1x1x4xf32>
// CHECK: %[[B:.*]] = graph.broadcast %[[S]] {dims = array<i64: 0, 1, 2, 3>{{.*}} -> tensor<2x8x8x4xf32>
// CHECK: %[[Y:.*]] = graph.mul %[[C]], %[[B]]
// CHECK: graph.transpose %[[Y]]
func.func @scaled(%x: tensor<2x3x8x8xf32>, %w: tensor<4x3x1x1xf32>, %s: tensor<2x4x1x1xf32>) -> tensor<2x4x8x8xf32> {
  %0 = graph.conv %x, %w {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads_low = array<i64: 0, 0>, pads_high = array<i64: 0, 0>, groups = 1 : i64} : (tensor<2x3x8x8xf32>, tensor<4x3x1x1xf32>) -> tensor<2x4x8x8xf32>
  %1 = graph.broadcast %s {dims = array<i64: 0, 1, 2, 3>} : (tensor<2x4x1x1xf32>) -> tensor<2x4x8x8xf32>
  %2 = graph.mul %0, %1 : tensor<2x4x8x8xf32>
  return %2 : tensor<2x4x8x8xf32>
}
