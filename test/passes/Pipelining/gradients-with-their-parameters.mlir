// RUN: divisi-opt %s --assign-stages="stages=2 cuts=second" | FileCheck %s

// A parameter of both stages, whose gradients are added when the step finishes, clipped by the norm of all gradients:
// the sum and its square are on the stage of the parameter, though the norm renews the state of both stages.
// CHECK: %[[G:.*]] = graph.add %{{.*}} {dist.stage = 0 : i64, graph.node = "tied:0"} : tensor<4x4xf32>
// CHECK: graph.mul %[[G]], %[[G]] {dist.stage = 0 : i64, graph.node = "tied:1"}
// CHECK: graph.reduce_sum %{{.*}} {{.*}}dist.stage = 0 : i64, graph.node = "tied:2"
// CHECK: graph.mul %[[G]], %{{.*}} {dist.stage = 0 : i64, graph.node = "tied:3"}
func.func @train(%a: tensor<4x4xf32> {graph.state = {name = "a", role = "parameter"}}, %b: tensor<4x4xf32> {graph.state = {name = "b", role = "parameter"}},
                 %x: tensor<4x2x4xf32> {graph.input = "x", graph.microbatches = 4 : i64}, %i: tensor<i64> {graph.scalar = "microbatch"})
    -> (tensor<4x4xf32> {graph.renews = "a"}, tensor<4x4xf32> {graph.renews = "b"}, tensor<f32> {graph.result = {kind = "loss"}}) attributes {graph.microbatches = 4 : i64} {
  %0 = graph.reshape %i : (tensor<i64>) -> tensor<1xi64>
  %1 = graph.gather %x, %0 {dim = 0 : i64} : (tensor<4x2x4xf32>, tensor<1xi64>) -> tensor<1x2x4xf32>
  %2 = graph.reshape %1 : (tensor<1x2x4xf32>) -> tensor<2x4xf32>
  %3 = graph.matmul %2, %a {graph.node = "first:0"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %4 = graph.matmul %3, %a {graph.node = "second:0"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %5 = graph.matmul %4, %b {graph.node = "second:1"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %6 = graph.reduce_sum %5 {dims = array<i64: 0, 1>, graph.node = "second:2"} : (tensor<2x4xf32>) -> tensor<f32>
  %loss = graph.accumulate %6 : (tensor<f32>) -> tensor<f32>
  %7 = graph.matmul %4, %5 {transpose_lhs, graph.node = "second:3"} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
  %gb = graph.accumulate %7 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %8 = graph.matmul %3, %5 {transpose_lhs, graph.node = "second:4"} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
  %ga1 = graph.accumulate %8 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %9 = graph.matmul %2, %5 {transpose_lhs, graph.node = "first:1"} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
  %ga0 = graph.accumulate %9 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %ga = graph.add %ga0, %ga1 {graph.node = "tied:0"} : tensor<4x4xf32>
  %10 = graph.mul %ga, %ga {graph.node = "tied:1"} : tensor<4x4xf32>
  %11 = graph.reduce_sum %10 {dims = array<i64: 0, 1>, graph.node = "tied:2"} : (tensor<4x4xf32>) -> tensor<f32>
  %12 = graph.mul %gb, %gb {graph.node = "b:0"} : tensor<4x4xf32>
  %13 = graph.reduce_sum %12 {dims = array<i64: 0, 1>, graph.node = "b:1"} : (tensor<4x4xf32>) -> tensor<f32>
  %14 = graph.add %11, %13 {graph.node = "update:0"} : tensor<f32>
  %15 = graph.rsqrt %14 {graph.node = "update:1"} : tensor<f32>
  %16 = graph.broadcast %15 {dims = array<i64>, graph.node = "update:2"} : (tensor<f32>) -> tensor<4x4xf32>
  %17 = graph.mul %ga, %16 {graph.node = "tied:3"} : tensor<4x4xf32>
  %18 = graph.mul %gb, %16 {graph.node = "b:2"} : tensor<4x4xf32>
  %19 = graph.sub %a, %17 {graph.node = "a:0"} : tensor<4x4xf32>
  %20 = graph.sub %b, %18 {graph.node = "b:3"} : tensor<4x4xf32>
  return %19, %20, %loss : tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>
}
