// RUN: not divisi-opt %s --split-microbatches=count=2 --split-tasks 2>&1 | FileCheck %s

// What a microbatch reads of all of them depends on the parameters, so that it cannot be computed first: the error names the sum.
// CHECK: ["balance"]): is summed over all microbatches, and node 'share' needs the sum in each of them: it cannot be computed in microbatches: leave out --accumulate
func.func @train(%w: tensor<3xf32> {graph.state = {name = "w", role = "parameter"}}, %x: tensor<8x3xf32> {graph.input = "x"})
    -> (tensor<3xf32> {graph.renews = "w"}, tensor<f32> {graph.result = {kind = "loss"}}) {
  %0 = graph.broadcast %w {dims = array<i64: 1>} : (tensor<3xf32>) -> tensor<8x3xf32> loc("scores")
  %1 = graph.mul %x, %0 : tensor<8x3xf32> loc("scores")
  %2 = graph.reduce_sum %1 {dims = array<i64: 0>} : (tensor<8x3xf32>) -> tensor<3xf32> loc("balance")
  %3 = graph.tanh %2 : tensor<3xf32> loc("balanced")
  %4 = graph.broadcast %3 {dims = array<i64: 1>} : (tensor<3xf32>) -> tensor<8x3xf32> loc("share")
  %5 = graph.mul %1, %4 : tensor<8x3xf32> loc("share")
  %6 = graph.reduce_sum %5 {dims = array<i64: 0>} : (tensor<8x3xf32>) -> tensor<3xf32> loc("share")
  %7 = graph.reduce_sum %6 {dims = array<i64: 0>} : (tensor<3xf32>) -> tensor<f32> loc("loss")
  return %6, %7 : tensor<3xf32>, tensor<f32>
}
