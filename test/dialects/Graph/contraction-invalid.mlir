// RUN: divisi-opt %s --split-input-file --verify-diagnostics

func.func @rank(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{constraint 1: matmul expects two operands of one rank of at least 2}}
  %0 = graph.matmul %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<f32>
  return
}

// -----

func.func @batch(%x: tensor<2x4x6xf32>, %y: tensor<3x6x5xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{constraint 3: matmul operands differ in batch dimension 0}}
  %0 = graph.matmul %x, %y : (tensor<2x4x6xf32>, tensor<3x6x5xf32>) -> tensor<2x4x5xf32>
  return
}

// -----

func.func @contracted(%x: tensor<4x6xf32>, %y: tensor<6x5xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{constraint 4: matmul contracts dimensions of different size}}
  %0 = graph.matmul %x, %y {transpose_rhs} : (tensor<4x6xf32>, tensor<6x5xf32>) -> tensor<4x6xf32>
  return
}

// -----

func.func @types(%x: tensor<4x6xf32>, %y: tensor<6x5xf64>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{constraint 2: matmul operands differ in element type}}
  %0 = graph.matmul %x, %y : (tensor<4x6xf32>, tensor<6x5xf64>) -> tensor<4x5xf32>
  return
}

// -----

func.func @conv_size(%x: tensor<2x4x8x8xf32>, %f: tensor<6x4x3x3xf32>) {
  // expected-error @+1 {{constraint 9: output size 8 in spatial dimension 1 should be 6}}
  %0 = graph.conv %x, %f {dilations = array<i64: 1, 1>, groups = 1 : i64, pads_high = array<i64: 1, 0>, pads_low = array<i64: 1, 0>, strides = array<i64: 1, 1>} : (tensor<2x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<2x6x8x8xf32>
  return
}

// -----

func.func @conv_groups(%x: tensor<2x4x8x8xf32>, %f: tensor<6x4x3x3xf32>) {
  // expected-error @+1 {{constraint 4: channels 4 and 6 do not divide into 3 groups}}
  %0 = graph.conv %x, %f {dilations = array<i64: 1, 1>, groups = 3 : i64, pads_high = array<i64: 1, 1>, pads_low = array<i64: 1, 1>, strides = array<i64: 1, 1>} : (tensor<2x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<2x6x8x8xf32>
  return
}

// -----

func.func @conv_filter(%x: tensor<2x4x8x8xf32>, %f: tensor<6x3x3x3xf32>) {
  // expected-error @+1 {{does not fit 4 input and 6 output channels in 1 groups}}
  %0 = graph.conv %x, %f {dilations = array<i64: 1, 1>, groups = 1 : i64, pads_high = array<i64: 1, 1>, pads_low = array<i64: 1, 1>, strides = array<i64: 1, 1>} : (tensor<2x4x8x8xf32>, tensor<6x3x3x3xf32>) -> tensor<2x6x8x8xf32>
  return
}

// -----

func.func @conv_stride(%x: tensor<2x4x8x8xf32>, %f: tensor<6x4x3x3xf32>) {
  // expected-error @+1 {{constraint 7: strides and dilations must be positive}}
  %0 = graph.conv %x, %f {dilations = array<i64: 1, 1>, groups = 1 : i64, pads_high = array<i64: 1, 1>, pads_low = array<i64: 1, 1>, strides = array<i64: 0, 1>} : (tensor<2x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<2x6x8x8xf32>
  return
}

// -----

func.func @conv_rank(%x: tensor<2x4xf32>, %f: tensor<6x4xf32>) {
  // expected-error @+1 {{constraint 2: expected tensors of one rank from 3 to 5}}
  %0 = graph.conv %x, %f {dilations = array<i64>, groups = 1 : i64, pads_high = array<i64>, pads_low = array<i64>, strides = array<i64>} : (tensor<2x4xf32>, tensor<6x4xf32>) -> tensor<2x6xf32>
  return
}
