// RUN: divisi-opt %s --make-train --split-input-file --verify-diagnostics
// RUN: not divisi-opt %s --make-train=optimizer=loin --split-input-file 2>&1 | FileCheck %s
// CHECK: unknown optimizer 'loin', expected sgd, adam, adamw, adagrad, rmsprop, lion, lamb, lars, adafactor or muon

// expected-error @+1 {{no parameter trains: every one is frozen, or the model has none}}
func.func @loss(%w: tensor<4xf32> {graph.parameter = "w", graph.frozen}) -> (tensor<f32> {graph.loss}) {
  %0 = graph.reduce_sum %w {dims = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// Rounding has no gradient.
// expected-error @+1 {{the loss depends on no parameter that trains}}
func.func @loss(%w: tensor<4xf32> {graph.parameter = "w"}) -> (tensor<f32> {graph.loss}) {
  %0 = graph.round %w : tensor<4xf32>
  %1 = graph.reduce_sum %0 {dims = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

// expected-error @+1 {{expected a result with the attribute 'graph.loss'}}
func.func @loss(%w: tensor<4xf32> {graph.parameter = "w"}) -> tensor<f32> {
  %0 = graph.reduce_sum %w {dims = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// expected-error @+1 {{expected a function @loss}}
module {
}

// -----

func.func @loss(%w: tensor<4xf32> {graph.parameter = "w"}) -> (tensor<f32> {graph.loss}) {
  // expected-error @+1 {{has no gradient}}
  %0 = graph.gelu_grad %w, %w : tensor<4xf32>
  %1 = graph.reduce_sum %0 {dims = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  return %1 : tensor<f32>
}
