// RUN: divisi-opt %s --split-microbatches=count=4 --canonicalize --cse --split-tasks | FileCheck %s --check-prefix=ONE
// RUN: divisi-opt %s --split-microbatches=count=4 --canonicalize --cse --assign-stages="stages=2 cuts=second" --split-tasks | FileCheck %s
// RUN: divisi-opt %s --split-microbatches=count=4 --canonicalize --cse --assign-stages="stages=2 cuts=second" --split-tasks=schedule=pipedream-2bw \
// RUN:   | FileCheck %s --check-prefix=DOUBLE
// RUN: divisi-opt %s --split-microbatches=count=4 --canonicalize --cse --assign-stages="stages=2 cuts=second" --split-tasks=schedule=zb-h1 \
// RUN:   | FileCheck %s --check-prefix=ZB

// On one device: a task for each microbatch, which adds to the sums of the previous one, and one after all.
// ONE-LABEL: func.func @train.0.step
// ONE-SAME: dist.held = {kind = "sum", name = "sum [[N:[0-9]]]"}
// ONE: %[[FIRST:.*]] = graph.compare lt
// ONE: %[[BOTH:.*]] = graph.add
// ONE: graph.select %{{.*}}, %{{.*}}, %[[BOTH]]
// ONE-LABEL: func.func @train.0.finish
// ONE-SAME: dist.held = {kind = "sum", name = "sum [[N]]"}
// ONE: graph.sub
// ONE: dist.schedule "train" "accumulate" microbatches 4
// ONE-SAME{LITERAL}: [["0.step 0", "0.step 1", "0.step 2", "0.step 3", "0.finish 0"]]

// In a pipeline: activations go to the second stage and their gradients back; a stage has its own parameter.
// CHECK-LABEL: func.func @train.0.forward
// CHECK-SAME: name = "a"
// CHECK-NOT: name = "b"
// CHECK: %[[H:.*]] = graph.tanh
// CHECK: dist.send %[[H]] to 1 id [[THERE:[0-9]]] : tensor<2x4xf32>
// CHECK-LABEL: func.func @train.0.backward
// CHECK: dist.receive from 1 id [[BACK:[0-9]]] : tensor<2x4xf32>
// CHECK-LABEL: func.func @train.1.forward
// CHECK-SAME: name = "b"
// CHECK-SAME: dist.held = {kind = "microbatch", name = "value
// CHECK-SAME: dist.partitioned = #dist.mesh<"stage" = 2>, dist.stage = 1
// CHECK: dist.receive from 0 id [[THERE]] : tensor<2x4xf32>
// CHECK-LABEL: func.func @train.1.backward
// CHECK: dist.send %{{.*}} to 0 id [[BACK]]
// CHECK: dist.schedule "train" "1f1b" microbatches 4
// CHECK-SAME{LITERAL}: [["0.forward 0", "0.forward 1", "0.backward 0", "0.forward 2", "0.backward 1", "0.forward 3", "0.backward 2", "0.backward 3", "0.finish 0"],
// CHECK-SAME{LITERAL}:  ["1.forward 0", "1.backward 0", "1.forward 1", "1.backward 1", "1.forward 2", "1.backward 2", "1.forward 3", "1.backward 3", "1.finish 0"]]

// The gradient of a parameter is a separate task: no earlier stage depends on it, and on the first stage nothing else is left.
// ZB-NOT: func.func @train.0.backward
// ZB-LABEL: func.func @train.0.weight
// ZB-LABEL: func.func @train.1.backward
// ZB-NOT: transpose_lhs
// ZB-LABEL: func.func @train.1.weight
// ZB: graph.matmul {{.*}}transpose_lhs}
// Two versions of the weights: the start of a batch copies them for its passes, before the update of the batch before.
// DOUBLE-LABEL: func.func @train.1.start
// DOUBLE-SAME: %[[B:[a-z0-9]+]]: tensor<4x5xf32> {graph.state = {name = "b"
// DOUBLE-SAME: -> (tensor<4x5xf32> {dist.held = {kind = "step", name = "[[W:value [0-9]+]]"}})
// DOUBLE: return %[[B]]
// DOUBLE-LABEL: func.func @train.1.forward
// DOUBLE-SAME: tensor<4x5xf32> {dist.held = {kind = "step", name = "[[W]]"}}
// DOUBLE-LABEL: func.func @train.1.backward
// DOUBLE-SAME: tensor<4x5xf32> {dist.held = {kind = "step", name = "[[W]]"}}
// DOUBLE-LABEL: func.func @train.1.finish
// DOUBLE-SAME: graph.state = {name = "b"
// DOUBLE: dist.schedule "train" "pipedream-2bw" microbatches 4
// DOUBLE-SAME{LITERAL}: [["0.start 0", "0.forward 0", "0.backward -1", "0.finish -1"], ["1.start 0", "1.finish -1", "1.forward 0", "1.backward 0"]]
func.func @train(%a: tensor<3x4xf32> {graph.state = {name = "a", role = "parameter"}},
                 %b: tensor<4x5xf32> {graph.state = {name = "b", role = "parameter"}}, %x: tensor<8x3xf32> {graph.input = "x"})
    -> (tensor<3x4xf32> {graph.renews = "a"}, tensor<4x5xf32> {graph.renews = "b"}, tensor<f32> {graph.result = {kind = "loss"}}) {
  %0 = graph.matmul %x, %a : (tensor<8x3xf32>, tensor<3x4xf32>) -> tensor<8x4xf32> loc("first")
  %1 = graph.tanh %0 : tensor<8x4xf32> loc("first")
  %2 = graph.matmul %1, %b : (tensor<8x4xf32>, tensor<4x5xf32>) -> tensor<8x5xf32> loc("second")
  %3 = graph.tanh %2 : tensor<8x5xf32> loc("second")
  %4 = graph.reduce_sum %3 {dims = array<i64: 0, 1>} : (tensor<8x5xf32>) -> tensor<f32> loc("second")
  %5 = graph.matmul %1, %3 {transpose_lhs} : (tensor<8x4xf32>, tensor<8x5xf32>) -> tensor<4x5xf32> loc("second")
  %6 = graph.matmul %3, %b {transpose_rhs} : (tensor<8x5xf32>, tensor<4x5xf32>) -> tensor<8x4xf32> loc("second")
  %7 = graph.mul %6, %1 : tensor<8x4xf32> loc("first")
  %8 = graph.matmul %x, %7 {transpose_lhs} : (tensor<8x3xf32>, tensor<8x4xf32>) -> tensor<3x4xf32> loc("first")
  %9 = graph.sub %a, %8 : tensor<3x4xf32> loc("a")
  %10 = graph.sub %b, %5 : tensor<4x5xf32> loc("b")
  return %9, %10, %4 : tensor<3x4xf32>, tensor<4x5xf32>, tensor<f32>
}
