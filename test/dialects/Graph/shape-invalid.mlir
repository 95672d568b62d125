// RUN: divisi-opt %s --split-input-file --verify-diagnostics

func.func @iota() {
  // expected-error @+1 {{constraint 1: dim 2 is out of range for rank 2}}
  %0 = graph.iota {dim = 2 : i64} : tensor<2x4xi64>
  return
}

// -----

func.func @broadcast_count(%x: tensor<6xf32>) {
  // expected-error @+1 {{constraint 1: expected one dim per operand dimension, got 0 for rank 1}}
  %0 = graph.broadcast %x {dims = array<i64>} : (tensor<6xf32>) -> tensor<4x6xf32>
  return
}

// -----

func.func @broadcast_order(%x: tensor<6x4xf32>) {
  // expected-error @+1 {{constraint 2: dims must be increasing and below the result's rank, got 0}}
  %0 = graph.broadcast %x {dims = array<i64: 1, 0>} : (tensor<6x4xf32>) -> tensor<4x6xf32>
  return
}

// -----

func.func @broadcast_size(%x: tensor<3xf32>) {
  // expected-error @+1 {{constraint 3: cannot broadcast size 3 to 6}}
  %0 = graph.broadcast %x {dims = array<i64: 1>} : (tensor<3xf32>) -> tensor<4x6xf32>
  return
}

// -----

func.func @broadcast_type(%x: tensor<6xf32>) {
  // expected-error @+1 {{constraint 4: may not change the element type}}
  %0 = graph.broadcast %x {dims = array<i64: 1>} : (tensor<6xf32>) -> tensor<4x6xf64>
  return
}

// -----

func.func @reshape(%x: tensor<4x6xf32>) {
  // expected-error @+1 {{constraint 1: cannot reshape 24 elements to 25}}
  %0 = graph.reshape %x : (tensor<4x6xf32>) -> tensor<5x5xf32>
  return
}

// -----

func.func @reshape_type(%x: tensor<4x6xf32>) {
  // expected-error @+1 {{constraint 2: may not change the element type}}
  %0 = graph.reshape %x : (tensor<4x6xf32>) -> tensor<24xi32>
  return
}

// -----

func.func @transpose(%x: tensor<4x6xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{constraint 1: permutation must name each of 2 dimensions once}}
  %0 = graph.transpose %x {permutation = array<i64: 0, 0>} : (tensor<4x6xf32>) -> tensor<4x4xf32>
  return
}

// -----

func.func @transpose_type(%x: tensor<4x6xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{inferred type(s) 'tensor<6x4xf32>' are incompatible with return type(s) of operation 'tensor<4x6xf32>'}}
  %0 = graph.transpose %x {permutation = array<i64: 1, 0>} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return
}

// -----

func.func @slice_step(%x: tensor<4xf32>) {
  // expected-error @+1 {{constraint 2: step must not be zero in dimension 0}}
  %0 = graph.slice %x {starts = array<i64: 0>, steps = array<i64: 0>} : (tensor<4xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @slice_end(%x: tensor<4xf32>) {
  // expected-error @+1 {{constraint 3: reaches outside of dimension 0 of size 4}}
  %0 = graph.slice %x {starts = array<i64: 1>, steps = array<i64: 2>} : (tensor<4xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @slice_begin(%x: tensor<4xf32>) {
  // expected-error @+1 {{constraint 3: reaches outside of dimension 0 of size 4}}
  %0 = graph.slice %x {starts = array<i64: 1>, steps = array<i64: -1>} : (tensor<4xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @slice_overflow(%x: tensor<4xf32>) {
  // expected-error @+1 {{constraint 3: reaches outside of dimension 0 of size 4}}
  %0 = graph.slice %x {starts = array<i64: 0>, steps = array<i64: 9223372036854775807>} : (tensor<4xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @pad(%x: tensor<4xf32>) {
  // expected-error @+1 {{constraint 3: reaches outside of dimension 0 of size 5}}
  %0 = graph.pad %x {low = array<i64: 2>, steps = array<i64: 1>, value = 0.0 : f64} : (tensor<4xf32>) -> tensor<5xf32>
  return
}

// -----

func.func @concat(%x: tensor<4x6xf32>, %y: tensor<5x6xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{constraint 4: concat inputs differ in dimension 0}}
  %0 = graph.concat %x, %y {dim = 1 : i64} : (tensor<4x6xf32>, tensor<5x6xf32>) -> tensor<4x12xf32>
  return
}

// -----

func.func @slice_to_another_type(%x: tensor<4x6xf32>) {
  // expected-error @+1 {{failed to verify that all of {x, result} have same element type}}
  %0 = graph.slice %x {starts = array<i64: 0, 0>, steps = array<i64: 1, 1>} : (tensor<4x6xf32>) -> tensor<4x3xi64>
  return
}

// -----

func.func @pad_to_another_type(%x: tensor<4x6xf32>) {
  // expected-error @+1 {{failed to verify that all of {x, result} have same element type}}
  %0 = graph.pad %x {low = array<i64: 0, 0>, steps = array<i64: 1, 1>, value = 0.0 : f64} : (tensor<4x6xf32>) -> tensor<4x7xf64>
  return
}
