// RUN: divisi-opt %s | divisi-opt | FileCheck %s

// CHECK-LABEL: func.func @matmul
func.func @matmul(%x: tensor<2x4x6xf32>, %y: tensor<2x5x6xf32>) -> tensor<2x4x5xf32> {
  // CHECK: graph.matmul %arg0, %arg1 {transpose_rhs} : (tensor<2x4x6xf32>, tensor<2x5x6xf32>) -> tensor<2x4x5xf32>
  %0 = graph.matmul %x, %y {transpose_rhs} : (tensor<2x4x6xf32>, tensor<2x5x6xf32>) -> tensor<2x4x5xf32>
  return %0 : tensor<2x4x5xf32>
}

// CHECK-LABEL: func.func @conv
func.func @conv(%x: tensor<2x8x8x4xf32>, %f: tensor<6x2x3x3xf32>) -> tensor<2x4x6x6xf32> {
  // CHECK: graph.conv %arg0, %arg1 {channels_last, dilations = array<i64: 1, 1>, groups = 2 : i64,
  // CHECK-SAME: pads_high = array<i64: 1, 0>, pads_low = array<i64: 0, 0>, strides = array<i64: 2, 1>}
  // CHECK-SAME: : (tensor<2x8x8x4xf32>, tensor<6x2x3x3xf32>) -> tensor<2x4x6x6xf32>
  %0 = graph.conv %x, %f {channels_last, dilations = array<i64: 1, 1>, groups = 2 : i64, pads_high = array<i64: 1, 0>, pads_low = array<i64: 0, 0>, strides = array<i64: 2, 1>} : (tensor<2x8x8x4xf32>, tensor<6x2x3x3xf32>) -> tensor<2x4x6x6xf32>
  return %0 : tensor<2x4x6x6xf32>
}

// CHECK-LABEL: func.func @conv_gradients
func.func @conv_gradients(%x: tensor<1x3x9xf32>, %g: tensor<1x5x4xf32>, %f: tensor<5x3x3xf32>) -> (tensor<1x3x9xf32>, tensor<5x3x3xf32>) {
  // CHECK: graph.conv_input_grad %arg1, %arg2
  %0 = graph.conv_input_grad %g, %f {dilations = array<i64: 1>, groups = 1 : i64, pads_high = array<i64: 0>, pads_low = array<i64: 0>, strides = array<i64: 2>} : (tensor<1x5x4xf32>, tensor<5x3x3xf32>) -> tensor<1x3x9xf32>
  // CHECK: graph.conv_filter_grad %arg0, %arg1
  %1 = graph.conv_filter_grad %x, %g {dilations = array<i64: 1>, groups = 1 : i64, pads_high = array<i64: 0>, pads_low = array<i64: 0>, strides = array<i64: 2>} : (tensor<1x3x9xf32>, tensor<1x5x4xf32>) -> tensor<5x3x3xf32>
  return %0, %1 : tensor<1x3x9xf32>, tensor<5x3x3xf32>
}
