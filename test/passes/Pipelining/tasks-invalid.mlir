// RUN: not divisi-opt %s --split-tasks="replicas=2,3" 2>&1 | FileCheck %s

// A mesh of six axes gets one for the stages and one for each number of replicas that take microbatches in turn.
// CHECK: error: schedule 1f1b: with the axes of stages and of replicas in turn the mesh has 9 axes, at most 7 are possible
func.func @train(%arg0: tensor<3x4xf32> {dist.stage = 0 : i64, graph.state = {name = "a", role = "parameter"}}, %arg1: tensor<4x5xf32> {dist.stage = 1 : i64, graph.state = {name = "b", role = "parameter"}}, %arg2: tensor<3x2x3xf32> {graph.input = "x", graph.microbatches = 3 : i64}, %arg3: tensor<i64> {graph.scalar = "microbatch"}) -> (tensor<3x4xf32> {graph.renews = "a"}, tensor<4x5xf32> {graph.renews = "b"}, tensor<f32> {graph.result = {kind = "loss"}}) attributes {dist.partitioned = #dist.mesh<"a" = 1, "b" = 1, "c" = 1, "d" = 1, "e" = 1, "f" = 1>, graph.microbatches = 3 : i64} {
  %0 = graph.reshape %arg3 : (tensor<i64>) -> tensor<1xi64>
  %1 = graph.gather %arg2, %0 {dim = 0 : i64} : (tensor<3x2x3xf32>, tensor<1xi64>) -> tensor<1x2x3xf32>
  %2 = graph.reshape %1 : (tensor<1x2x3xf32>) -> tensor<2x3xf32>
  %3 = graph.matmul %2, %arg0 {dist.stage = 0 : i64, graph.node = "first:0"} : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %4 = graph.tanh %3 {dist.stage = 0 : i64, graph.node = "first:1"} : tensor<2x4xf32>
  %5 = graph.matmul %4, %arg1 {dist.stage = 1 : i64, graph.node = "second:0"} : (tensor<2x4xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>
  %6 = graph.tanh %5 {dist.stage = 1 : i64, graph.node = "second:1"} : tensor<2x5xf32>
  %7 = graph.reduce_sum %6 {dims = array<i64: 0, 1>, dist.stage = 1 : i64, graph.node = "second:2"} : (tensor<2x5xf32>) -> tensor<f32>
  %8 = graph.accumulate %7 {dist.stage = 1 : i64} : (tensor<f32>) -> tensor<f32>
  %9 = graph.matmul %4, %6 {dist.stage = 1 : i64, graph.node = "second:3", transpose_lhs} : (tensor<2x4xf32>, tensor<2x5xf32>) -> tensor<4x5xf32>
  %10 = graph.accumulate %9 {dist.stage = 1 : i64} : (tensor<4x5xf32>) -> tensor<4x5xf32>
  %11 = graph.matmul %6, %arg1 {dist.stage = 1 : i64, graph.node = "second:4", transpose_rhs} : (tensor<2x5xf32>, tensor<4x5xf32>) -> tensor<2x4xf32>
  %12 = graph.mul %11, %4 {dist.stage = 0 : i64, graph.node = "first:2"} : tensor<2x4xf32>
  %13 = graph.matmul %2, %12 {dist.stage = 0 : i64, graph.node = "first:3", transpose_lhs} : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<3x4xf32>
  %14 = graph.accumulate %13 {dist.stage = 0 : i64} : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %15 = graph.sub %arg0, %14 {dist.stage = 0 : i64, graph.node = "a:0"} : tensor<3x4xf32>
  %16 = graph.sub %arg1, %10 {dist.stage = 1 : i64, graph.node = "b:0"} : tensor<4x5xf32>
  return %15, %16, %8 : tensor<3x4xf32>, tensor<4x5xf32>, tensor<f32>
}
