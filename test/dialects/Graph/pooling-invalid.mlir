// RUN: divisi-opt %s --split-input-file --verify-diagnostics

func.func @outside(%x: tensor<8xf32>) {
  // expected-error @+1 {{constraint 4: the last window lies outside of dimension 0}}
  %0 = graph.sum_pool %x {dilations = array<i64: 1>, pads_low = array<i64: 0>, strides = array<i64: 2>, window = array<i64: 2>} : (tensor<8xf32>) -> tensor<5xf32>
  return
}

// -----

func.func @entries(%x: tensor<2x8xf32>) {
  // expected-error @+1 {{constraint 2: expected attributes with 2 entries}}
  %0 = graph.sum_pool %x {dilations = array<i64: 1, 1>, pads_low = array<i64: 0, 0>, strides = array<i64: 2>, window = array<i64: 1, 2>} : (tensor<2x8xf32>) -> tensor<2x4xf32>
  return
}

// -----

func.func @negative(%x: tensor<8xf32>) {
  // expected-error @+1 {{constraint 3: window, strides and dilations must be positive and pads not negative}}
  %0 = graph.sum_pool %x {dilations = array<i64: 1>, pads_low = array<i64: -1>, strides = array<i64: 2>, window = array<i64: 2>} : (tensor<8xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @results(%x: tensor<8xf32>) {
  // expected-error @+1 {{constraint 5: expected results of one shape}}
  %0:2 = graph.max_pool %x {dilations = array<i64: 1>, pads_low = array<i64: 0>, strides = array<i64: 2>, window = array<i64: 2>} : (tensor<8xf32>) -> (tensor<4xf32>, tensor<3xi32>)
  return
}

// -----

func.func @operands(%g: tensor<4xf32>, %p: tensor<3xi32>) {
  // expected-error @+1 {{constraint 5: expected operands of one shape}}
  %0 = graph.max_pool_grad %g, %p {dilations = array<i64: 1>, pads_low = array<i64: 0>, strides = array<i64: 2>, window = array<i64: 2>} : (tensor<4xf32>, tensor<3xi32>) -> tensor<8xf32>
  return
}

// -----

func.func @max_pool_to_another_type(%x: tensor<4x6xf32>) {
  // expected-error @+1 {{failed to verify that all of {x, result} have same element type}}
  %0:2 = graph.max_pool %x {window = array<i64: 1, 2>, strides = array<i64: 1, 2>, dilations = array<i64: 1, 1>, pads_low = array<i64: 0, 0>} : (tensor<4x6xf32>) -> (tensor<4x3xf64>, tensor<4x3xi32>)
  return
}


// -----

func.func @max_pool_grad_to_another_type(%g: tensor<4x3xf32>, %p: tensor<4x3xi32>) {
  // expected-error @+1 {{failed to verify that all of {gradient, result} have same element type}}
  %0 = graph.max_pool_grad %g, %p {window = array<i64: 1, 2>, strides = array<i64: 1, 2>, dilations = array<i64: 1, 1>, pads_low = array<i64: 0, 0>} : (tensor<4x3xf32>, tensor<4x3xi32>) -> tensor<4x6xf64>
  return
}


// -----

func.func @sum_pool_to_another_type(%x: tensor<4x6xf32>) {
  // expected-error @+1 {{failed to verify that all of {x, result} have same element type}}
  %0 = graph.sum_pool %x {window = array<i64: 1, 2>, strides = array<i64: 1, 2>, dilations = array<i64: 1, 1>, pads_low = array<i64: 0, 0>} : (tensor<4x6xf32>) -> tensor<4x3xf64>
  return
}


// -----

func.func @sum_pool_grad_to_another_type(%g: tensor<4x3xf32>) {
  // expected-error @+1 {{failed to verify that all of {gradient, result} have same element type}}
  %0 = graph.sum_pool_grad %g {window = array<i64: 1, 2>, strides = array<i64: 1, 2>, dilations = array<i64: 1, 1>, pads_low = array<i64: 0, 0>} : (tensor<4x3xf32>) -> tensor<4x6xf64>
  return
}

// -----

func.func @sum_pool_by_endless_strides(%x: tensor<4x16xf32>) {
  // expected-error @+1 {{constraint 3: window, strides, dilations and pads must not be larger than 2^30, got 9223372036854775807}}
  %0 = graph.sum_pool %x {window = array<i64: 1, 2>, strides = array<i64: 1, 9223372036854775807>, dilations = array<i64: 1, 1>, pads_low = array<i64: 0, 0>} : (tensor<4x16xf32>) -> tensor<4x8xf32>
  return
}
