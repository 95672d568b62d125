// RUN: divisi-opt %s --split-microbatches=whole --canonicalize --cse | FileCheck %s

// Without the mark, the updated weight would be taken for what the step sums up.
// RUN: sed 's/graph.accumulate %%3 : (tensor<3x5xf32>) ->/graph.neg %%3 :/' %s | not divisi-opt --split-microbatches=whole 2>&1 | FileCheck %s --check-prefix=UNMARKED
// UNMARKED: error: a step that works on the whole batch needs to know where its backward pass ends

// One microbatch is the whole batch, in its order; the gradient that make-train has marked and the loss are sums of one.
// CHECK-LABEL: func.func @train
// CHECK-SAME: %[[X:arg[0-9]]]: tensor<1x8x3xf32> {graph.input = "x", graph.microbatches = 1 : i64}
// CHECK-SAME: %[[I:arg[0-9]]]: tensor<i64> {graph.scalar = "microbatch"}
// CHECK-SAME: attributes {graph.microbatches = 1 : i64}
// CHECK: graph.gather %[[X]]
// CHECK: %[[BATCH:.*]] = graph.reshape {{.*}} -> tensor<8x3xf32>
// CHECK: graph.matmul %[[BATCH]], %arg0
// CHECK: %[[G:.*]] = graph.matmul %[[BATCH]], %{{.*}} {transpose_lhs}
// CHECK: %[[SUM:.*]] = graph.accumulate %[[G]]
// CHECK: %[[NEW:.*]] = graph.sub %arg0, %[[SUM]]
// CHECK: %[[LOSS:.*]] = graph.accumulate
// CHECK: return %[[NEW]], %[[LOSS]]
func.func @train(%w: tensor<3x5xf32> {graph.state = {name = "w", role = "parameter"}}, %x: tensor<8x3xf32> {graph.input = "x"})
    -> (tensor<3x5xf32> {graph.renews = "w"}, tensor<f32> {graph.result = {kind = "loss"}}) {
  %0 = graph.matmul %x, %w : (tensor<8x3xf32>, tensor<3x5xf32>) -> tensor<8x5xf32>
  %1 = graph.tanh %0 : tensor<8x5xf32>
  %2 = graph.reduce_sum %1 {dims = array<i64: 0, 1>} : (tensor<8x5xf32>) -> tensor<f32>
  %3 = graph.matmul %x, %1 {transpose_lhs} : (tensor<8x3xf32>, tensor<8x5xf32>) -> tensor<3x5xf32>
  %4 = graph.accumulate %3 : (tensor<3x5xf32>) -> tensor<3x5xf32>
  %5 = graph.sub %w, %4 : tensor<3x5xf32>
  return %5, %2 : tensor<3x5xf32>, tensor<f32>
}
