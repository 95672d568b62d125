// RUN: divisi-opt %s --split-input-file --verify-diagnostics

func.func @half(%x: tensor<4xf32>, %seed: tensor<i64>) {
  // expected-error @+1 {{constraint 1: needs both seed and step, or neither}}
  %0 = graph.dropout %x, %seed {ratio = 0.5 : f64, stream = 0 : i64} : (tensor<4xf32>, tensor<i64>) -> tensor<4xf32>
  return
}

// -----

func.func @ratio(%x: tensor<4xf32>) {
  // expected-error @+1 {{constraint 2: ratio must be in [0, 1), got}}
  %0 = graph.dropout %x {ratio = 1.0 : f64, stream = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return
}
