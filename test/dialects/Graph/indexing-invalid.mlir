// RUN: divisi-opt %s --split-input-file --verify-diagnostics

func.func @gather_dim(%x: tensor<4x6xf32>, %i: tensor<3xi64>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{constraint 1: dim 2 is out of range for 'tensor<4x6xf32>'}}
  %0 = graph.gather %x, %i {dim = 2 : i64} : (tensor<4x6xf32>, tensor<3xi64>) -> tensor<3x6xf32>
  return
}

// -----

func.func @index_type(%x: tensor<4x6xf32>, %i: tensor<3xi32>) {
  // expected-error @+1 {{operand #1 must be ranked tensor of 64-bit signless integer values}}
  %0 = graph.gather %x, %i {dim = 0 : i64} : (tensor<4x6xf32>, tensor<3xi32>) -> tensor<3x6xf32>
  return
}

// -----

func.func @scatter_add(%x: tensor<4x6xf32>, %i: tensor<3xi64>, %u: tensor<2x6xf32>) {
  // expected-error @+1 {{constraint 2: updates do not have the shape of the rows that indices name}}
  %0 = graph.scatter_add %x, %i, %u {dim = 0 : i64} : (tensor<4x6xf32>, tensor<3xi64>, tensor<2x6xf32>) -> tensor<4x6xf32>
  return
}

// -----

func.func @gather_elements(%x: tensor<4x6xf32>, %i: tensor<5x2xi64>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{constraint 3: indices are larger than x in dimension 0}}
  %0 = graph.gather_elements %x, %i {dim = 1 : i64} : (tensor<4x6xf32>, tensor<5x2xi64>) -> tensor<5x2xf32>
  return
}

// -----

func.func @scatter_elements(%x: tensor<4x6xf32>, %i: tensor<4x2xi64>, %u: tensor<4x3xf32>) {
  // expected-error @+1 {{constraint 2: expected indices and updates of one shape and of x's rank}}
  %0 = graph.scatter_elements %x, %i, %u {combine = #graph<combine add>, dim = 1 : i64} : (tensor<4x6xf32>, tensor<4x2xi64>, tensor<4x3xf32>) -> tensor<4x6xf32>
  return
}

// -----

func.func @combine(%x: tensor<4xf32>, %i: tensor<2xi64>, %u: tensor<2xf32>) {
  // expected-error @+2 {{expected ::divisi::graph::Combine to be one of: assign, add, mul, max, min}}
  // expected-error @+1 {{failed to parse Graph_CombineAttr parameter}}
  %0 = graph.scatter_elements %x, %i, %u {combine = #graph<combine plus>, dim = 0 : i64} : (tensor<4xf32>, tensor<2xi64>, tensor<2xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @gather_nd(%x: tensor<4x6xf32>, %i: tensor<3x3xi64>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{constraint 2: index vectors of length 3 are too long for 'tensor<4x6xf32>'}}
  %0 = graph.gather_nd %x, %i {batch_dims = 0 : i64} : (tensor<4x6xf32>, tensor<3x3xi64>) -> tensor<3xf32>
  return
}

// -----

func.func @scatter_nd(%x: tensor<4x6xf32>, %i: tensor<3x1xi64>, %u: tensor<3xf32>) {
  // expected-error @+1 {{constraint 4: updates do not have the shape of the slices that indices name}}
  %0 = graph.scatter_nd %x, %i, %u {batch_dims = 0 : i64, combine = #graph<combine add>} : (tensor<4x6xf32>, tensor<3x1xi64>, tensor<3xf32>) -> tensor<4x6xf32>
  return
}

// -----

func.func @top_k(%x: tensor<4x6xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{constraint 2: k = 7 is larger than dimension 1 of 'tensor<4x6xf32>'}}
  %0:2 = graph.top_k %x {dim = 1 : i64, k = 7 : i64} : (tensor<4x6xf32>) -> (tensor<4x7xf32>, tensor<4x7xi64>)
  return
}

// -----

func.func @updates_of_another_type_add(%x: tensor<4x6xf32>, %i: tensor<3xi64>, %u: tensor<3x6xf64>) {
  // expected-error @+1 {{failed to verify that all of {x, updates} have same element type}}
  %0 = graph.scatter_add %x, %i, %u {dim = 0 : i64} : (tensor<4x6xf32>, tensor<3xi64>, tensor<3x6xf64>) -> tensor<4x6xf32>
  return
}


// -----

func.func @updates_of_another_type_elements(%x: tensor<4x6xf32>, %i: tensor<4x2xi64>, %u: tensor<4x2xf64>) {
  // expected-error @+1 {{failed to verify that all of {x, updates} have same element type}}
  %0 = graph.scatter_elements %x, %i, %u {dim = 1 : i64, combine = #graph<combine add>} : (tensor<4x6xf32>, tensor<4x2xi64>, tensor<4x2xf64>) -> tensor<4x6xf32>
  return
}


// -----

func.func @updates_of_another_type_nd(%x: tensor<4x6xf32>, %i: tensor<4x3x1xi64>, %u: tensor<4x3xf64>) {
  // expected-error @+1 {{failed to verify that all of {x, updates} have same element type}}
  %0 = graph.scatter_nd %x, %i, %u {batch_dims = 1 : i64, combine = #graph<combine add>} : (tensor<4x6xf32>, tensor<4x3x1xi64>, tensor<4x3xf64>) -> tensor<4x6xf32>
  return
}
