// RUN: divisi-opt %s --split-microbatches=count=4 --split-input-file --verify-diagnostics

// expected-error@+1 {{the batch of 6 of the input 'x' does not divide into 4 microbatches}}
func.func @train(%w: tensor<3xf32> {graph.state = {name = "w", role = "parameter"}}, %x: tensor<6x3xf32> {graph.input = "x"})
    -> (tensor<f32> {graph.result = {kind = "loss"}}) {
  %0 = graph.reduce_sum %x {dims = array<i64: 0, 1>} : (tensor<6x3xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// A value of all samples, in the middle of the step, that depends on the parameters.
func.func @train(%w: tensor<3xf32> {graph.state = {name = "w", role = "parameter"}}, %x: tensor<8x3xf32> {graph.input = "x"})
    -> (tensor<f32> {graph.result = {kind = "loss"}}) {
  %0 = graph.broadcast %w {dims = array<i64: 1>} : (tensor<3xf32>) -> tensor<8x3xf32>
  %1 = graph.mul %x, %0 : tensor<8x3xf32>
  // expected-error@+1 {{needs the whole batch at once: it cannot be computed in microbatches: leave out}}
  %2 = graph.cumsum %1 {dim = 0 : i64} : (tensor<8x3xf32>) -> tensor<8x3xf32>
  %3 = graph.reduce_sum %2 {dims = array<i64: 0, 1>} : (tensor<8x3xf32>) -> tensor<f32>
  return %3 : tensor<f32>
}

// -----

// A parameter of the batch's size is whole in every microbatch: one that is split would keep one microbatch's gradient.
func.func @train(%w: tensor<8x3xf32> {graph.state = {name = "w", role = "parameter"}}, %x: tensor<8x3xf32> {graph.input = "x"})
    -> (tensor<8x3xf32> {graph.renews = "w"}, tensor<f32> {graph.result = {kind = "loss"}}) {
  %0 = graph.mul %x, %w : tensor<8x3xf32>
  %1 = graph.reduce_sum %0 {dims = array<i64: 0, 1>} : (tensor<8x3xf32>) -> tensor<f32>
  // expected-error@+1 {{needs the whole batch at once: it cannot be computed in microbatches: leave out}}
  %2 = graph.sub %w, %x : tensor<8x3xf32>
  return %2, %1 : tensor<8x3xf32>, tensor<f32>
}
