// RUN: divisi-opt %s --split-input-file --verify-diagnostics

func.func @range(%x: tensor<4x6xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{constraint 1: reduced dimension 2 is out of range or repeated for rank 2}}
  %0 = graph.reduce_sum %x {dims = array<i64: 2>} : (tensor<4x6xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @repeated(%x: tensor<4x6xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{constraint 1: reduced dimension 1 is out of range or repeated for rank 2}}
  %0 = graph.reduce_prod %x {dims = array<i64: 1, 1>} : (tensor<4x6xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @kept(%x: tensor<4x6xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{inferred type(s) 'tensor<4xf32>' are incompatible}}
  %0 = graph.reduce_max %x {dims = array<i64: 1>} : (tensor<4x6xf32>) -> tensor<4x1xf32>
  return
}

// -----

func.func @argmax(%x: tensor<4x6xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{constraint 1: reduced dimension -1 is out of range}}
  %0 = graph.argmax %x {dim = -1 : i64} : (tensor<4x6xf32>) -> tensor<4xi64>
  return
}
