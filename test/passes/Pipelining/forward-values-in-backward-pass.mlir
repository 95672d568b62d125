// RUN: divisi-opt %s --split-microbatches=count=4 --canonicalize --cse --assign-stages="stages=2 cuts=second" | FileCheck %s

// What the backward pass makes of forward values alone is computed on the latest stage that reads it. On the stage of
// its layer it would draw the second layer's gradient away from the weight b, since gradients never move to later stages.
// CHECK: graph.sign {{.*}} {dist.stage = 1 : i64, graph.node = "first:
// CHECK: graph.mul {{.*}} {dist.stage = 1 : i64, graph.node = "second:
// CHECK: graph.matmul {{.*}}{dist.stage = 1 : i64, graph.node = "second:{{.*}} -> tensor<4x5xf32>
// CHECK: graph.matmul {{.*}}{dist.stage = 1 : i64, graph.node = "second:{{.*}} -> tensor<2x4xf32>
// CHECK: graph.mul {{.*}}{dist.stage = 0 : i64, graph.node = "first:
func.func @train(%a: tensor<3x4xf32> {graph.state = {name = "a", role = "parameter"}},
                 %b: tensor<4x5xf32> {graph.state = {name = "b", role = "parameter"}}, %x: tensor<8x3xf32> {graph.input = "x"})
    -> (tensor<3x4xf32> {graph.renews = "a"}, tensor<4x5xf32> {graph.renews = "b"}, tensor<f32> {graph.result = {kind = "loss"}}) {
  %0 = graph.matmul %x, %a : (tensor<8x3xf32>, tensor<3x4xf32>) -> tensor<8x4xf32> loc("first")
  %1 = graph.tanh %0 : tensor<8x4xf32> loc("first")
  %2 = graph.matmul %1, %b : (tensor<8x4xf32>, tensor<4x5xf32>) -> tensor<8x5xf32> loc("second")
  %3 = graph.tanh %2 : tensor<8x5xf32> loc("second")
  %4 = graph.reduce_sum %3 {dims = array<i64: 0, 1>} : (tensor<8x5xf32>) -> tensor<f32> loc("second")
  %mask = graph.sign %1 : tensor<8x4xf32> loc("first")
  %kept = graph.mul %1, %mask : tensor<8x4xf32> loc("second")
  %5 = graph.matmul %kept, %3 {transpose_lhs} : (tensor<8x4xf32>, tensor<8x5xf32>) -> tensor<4x5xf32> loc("second")
  %6 = graph.matmul %3, %b {transpose_rhs} : (tensor<8x5xf32>, tensor<4x5xf32>) -> tensor<8x4xf32> loc("second")
  %7 = graph.mul %6, %mask : tensor<8x4xf32> loc("first")
  %8 = graph.matmul %x, %7 {transpose_lhs} : (tensor<8x3xf32>, tensor<8x4xf32>) -> tensor<3x4xf32> loc("first")
  %9 = graph.sub %a, %8 : tensor<3x4xf32> loc("a")
  %10 = graph.sub %b, %5 : tensor<4x5xf32> loc("b")
  return %9, %10, %4 : tensor<3x4xf32>, tensor<4x5xf32>, tensor<f32>
}
