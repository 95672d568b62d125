// RUN: not divisi-opt %s --group-batch-norm=groups=3 --split-input-file 2>&1 | FileCheck %s
// RUN: not divisi-opt %s --group-batch-norm=groups=16 --split-input-file 2>&1 | FileCheck %s --check-prefix=MORE
// RUN: not divisi-opt %s --group-batch-norm=groups=0 --split-input-file 2>&1 | FileCheck %s --check-prefix=ZERO
// CHECK: error: a batch of 8 does not divide into 3 groups for local statistics
// MORE: error: a batch of 8 does not divide into 16 groups for local statistics
// ZERO: error: a batch of 8 does not divide into 0 groups for local statistics
// The pass prints the number as a character.
func.func @loss(%w: tensor<4xf32> {graph.parameter = "w"}, %x: tensor<8x4x6xf32> {graph.input = "x"})
    -> (tensor<f32> {graph.loss}) {
  %y:3 = graph.batch_norm %x, %w, %w, %w, %w {dim = 1 : i64, epsilon = 1.0e-5 : f64}
      : (tensor<8x4x6xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
      -> (tensor<8x4x6xf32>, tensor<4xf32>, tensor<4xf32>)
  %l = graph.reduce_sum %y#0 {dims = array<i64: 0, 1, 2>} : (tensor<8x4x6xf32>) -> tensor<f32>
  return %l : tensor<f32>
}

// -----

// CHECK: error: batch norm over parts of the batch (microbatches, local statistics) needs the samples along the first dimension
func.func @loss(%w: tensor<4xf32> {graph.parameter = "w"}, %x: tensor<6x2x4xf32> {graph.input = "x"})
    -> (tensor<f32> {graph.loss}) {
  %t = graph.transpose %x {permutation = array<i64: 1, 0, 2>} : (tensor<6x2x4xf32>) -> tensor<2x6x4xf32>
  %r = graph.reshape %t : (tensor<2x6x4xf32>) -> tensor<12x4xf32>
  %y:3 = graph.batch_norm %r, %w, %w, %w, %w {dim = 1 : i64, epsilon = 1.0e-5 : f64}
      : (tensor<12x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
      -> (tensor<12x4xf32>, tensor<4xf32>, tensor<4xf32>)
  %l = graph.reduce_sum %y#0 {dims = array<i64: 0, 1>} : (tensor<12x4xf32>) -> tensor<f32>
  return %l : tensor<f32>
}
