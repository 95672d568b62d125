// RUN: divisi-opt %s --split-microbatches=count=3 --canonicalize --cse --assign-stages="stages=2 cuts=second" --split-tasks="replicas=2,1" \
// RUN:   | FileCheck %s
// RUN: not divisi-opt %s --split-microbatches=count=3 --assign-stages="stages=2 cuts=second" --split-tasks="replicas=4,1" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=MANY
// RUN: not divisi-opt %s --split-microbatches=count=3 --assign-stages="stages=2 cuts=second" --split-tasks="replicas=2" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=COUNT
// RUN: not divisi-opt %s --split-microbatches=count=3 --assign-stages="stages=2 cuts=second" --split-tasks="schedule=zb-h1 replicas=2,1" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=KIND
// MANY: error: schedule: replicas: from 1 to the 3 microbatches are possible, not 4: each takes one in turn
// COUNT: error: schedule: replicas: a number for each of 2 stages is needed, not 1
// KIND: error: schedule: schedule zb-h1 has no replicas that take microbatches in turn; naive, gpipe, 1f1b and pipedream have

// The first stage has two replicas. Each starts its own sum with its first microbatch, 0 or 1; the sum over all is complete in the task
// finish. The second stage has one, whose sums need no collective.
// CHECK-LABEL: func.func @train.0.forward
// CHECK-SAME: dist.partitioned = #dist.mesh<"stage" = 2, "turn" = 2>
// CHECK-SAME: dist.stage_axes = {{\[\["turn"\], \[\]\]}}
// CHECK: dist.send %{{.*}} to 1 id [[THERE:[0-9]]]
// CHECK-LABEL: func.func @train.0.backward
// CHECK: %[[TWO:.*]] = graph.constant dense<2> : tensor<i64>
// CHECK: graph.compare lt %{{.*}}, %[[TWO]]
// CHECK-LABEL: func.func @train.0.finish
// CHECK-SAME: %[[SUM:[^:]*]]: tensor<3x4xf32> {dist.held = {kind = "sum"
// CHECK: %[[ALL:.*]] = dist.all_reduce sum over ["turn"] %[[SUM]] : (tensor<3x4xf32>)
// CHECK: graph.sub %{{.*}}, %[[ALL]]
// CHECK-LABEL: func.func @train.1.forward
// CHECK: dist.receive from 0 id [[THERE]]
// CHECK-LABEL: func.func @train.1.finish
// CHECK-NOT: dist.all_reduce
// The first stage lets two microbatches more enter than it has finished, one for each replica of both stages but one.
// CHECK: dist.schedule "train" "1f1b" microbatches 3
// CHECK-SAME: ["0.forward 0", "0.forward 1", "0.forward 2", "0.backward 0", "0.backward 1", "0.backward 2", "0.finish 0"]
// CHECK-SAME: ["1.forward 0", "1.backward 0", "1.forward 1", "1.backward 1", "1.forward 2", "1.backward 2", "1.finish 0"]
func.func @train(%a: tensor<3x4xf32> {graph.state = {name = "a", role = "parameter"}},
                 %b: tensor<4x5xf32> {graph.state = {name = "b", role = "parameter"}}, %x: tensor<6x3xf32> {graph.input = "x"})
    -> (tensor<3x4xf32> {graph.renews = "a"}, tensor<4x5xf32> {graph.renews = "b"}, tensor<f32> {graph.result = {kind = "loss"}}) {
  %0 = graph.matmul %x, %a : (tensor<6x3xf32>, tensor<3x4xf32>) -> tensor<6x4xf32> loc("first")
  %1 = graph.tanh %0 : tensor<6x4xf32> loc("first")
  %2 = graph.matmul %1, %b : (tensor<6x4xf32>, tensor<4x5xf32>) -> tensor<6x5xf32> loc("second")
  %3 = graph.tanh %2 : tensor<6x5xf32> loc("second")
  %4 = graph.reduce_sum %3 {dims = array<i64: 0, 1>} : (tensor<6x5xf32>) -> tensor<f32> loc("second")
  %5 = graph.matmul %1, %3 {transpose_lhs} : (tensor<6x4xf32>, tensor<6x5xf32>) -> tensor<4x5xf32> loc("second")
  %6 = graph.matmul %3, %b {transpose_rhs} : (tensor<6x5xf32>, tensor<4x5xf32>) -> tensor<6x4xf32> loc("second")
  %7 = graph.mul %6, %1 : tensor<6x4xf32> loc("first")
  %8 = graph.matmul %x, %7 {transpose_lhs} : (tensor<6x3xf32>, tensor<6x4xf32>) -> tensor<3x4xf32> loc("first")
  %9 = graph.sub %a, %8 : tensor<3x4xf32> loc("a")
  %10 = graph.sub %b, %5 : tensor<4x5xf32> loc("b")
  return %9, %10, %4 : tensor<3x4xf32>, tensor<4x5xf32>, tensor<f32>
}
