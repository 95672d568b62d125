// RUN: divisi-opt %s --split-tasks | FileCheck %s

// A gradient that no microbatch changes is computed before they add it up, each once.
// CHECK-LABEL: func.func @train.0.start
// CHECK: %[[G:.*]] = graph.reduce_sum %{{.*}} {dims = array<i64: 0>} : (tensor<64x64xf32>) -> tensor<64xf32>
// CHECK: return %[[G]]
// CHECK-LABEL: func.func @train.0.step
// CHECK-NOT: graph.reduce_sum {{.*}} -> tensor<64xf32>
// CHECK: graph.add %{{.*}}, %{{.*}} : tensor<64xf32>
// CHECK-LABEL: func.func @train.0.finish
// CHECK-NOT: graph.reduce_sum
// CHECK: graph.sub
func.func @train(%a: tensor<64xf32> {graph.state = {name = "a", role = "parameter"}}, %x: tensor<4x2x64xf32> {graph.input = "x", graph.microbatches = 4 : i64},
                 %i: tensor<i64> {graph.scalar = "microbatch"})
    -> (tensor<64xf32> {graph.renews = "a"}, tensor<f32> {graph.result = {kind = "loss"}}) attributes {graph.microbatches = 4 : i64} {
  %0 = graph.reshape %i : (tensor<i64>) -> tensor<1xi64>
  %1 = graph.gather %x, %0 {dim = 0 : i64} : (tensor<4x2x64xf32>, tensor<1xi64>) -> tensor<1x2x64xf32>
  %2 = graph.reduce_sum %1 {dims = array<i64: 0, 1, 2>} : (tensor<1x2x64xf32>) -> tensor<f32>
  %3 = graph.accumulate %2 : (tensor<f32>) -> tensor<f32>
  %one = graph.constant dense<1.0> : tensor<64x64xf32>
  %4 = graph.reduce_sum %one {dims = array<i64: 0>} : (tensor<64x64xf32>) -> tensor<64xf32>
  %5 = graph.accumulate %4 : (tensor<64xf32>) -> tensor<64xf32>
  %6 = graph.sub %a, %5 : tensor<64xf32>
  return %6, %3 : tensor<64xf32>, tensor<f32>
}
