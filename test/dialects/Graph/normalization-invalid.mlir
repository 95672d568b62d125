// RUN: divisi-opt %s --split-input-file --verify-diagnostics

func.func @softmax(%x: tensor<4x6xf32>) {
  // expected-error @+1 {{failed to verify that all of {x, result} have same type}}
  %0 = graph.softmax %x {dim = 1 : i64} : (tensor<4x6xf32>) -> tensor<4x5xf32>
  return
}

// -----

func.func @labels(%x: tensor<4x6xf32>, %l: tensor<4xi32>) {
  // expected-error @+1 {{operand #1 must be ranked tensor of 64-bit signless integer values}}
  %0 = graph.cross_entropy %x, %l : (tensor<4x6xf32>, tensor<4xi32>) -> tensor<4xf32>
  return
}
