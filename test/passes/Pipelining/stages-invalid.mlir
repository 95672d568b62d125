// RUN: not divisi-opt %s --split-microbatches=count=2 --assign-stages=stages=9 2>&1 | FileCheck %s --check-prefix=MANY
// RUN: not divisi-opt %s --split-microbatches=count=2 --assign-stages="stages=2 cuts=third" 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not divisi-opt %s --split-microbatches=count=2 --assign-stages="stages=2 cuts=second" --split-tasks=schedule=zigzag 2>&1 | FileCheck %s --check-prefix=KIND
// RUN: not divisi-opt %s --split-microbatches=count=2 --assign-stages="stages=2 cuts=second" --split-tasks="schedule=interleaved chunks=3" 2>&1 | FileCheck %s --check-prefix=CHUNKS
// RUN: not divisi-opt %s --split-microbatches=count=2 --assign-stages="stages=2 cuts=second" --split-tasks=schedule=pipedream 2>&1 | FileCheck %s --check-prefix=PARTS
// RUN: not divisi-opt %s --split-microbatches=asynchronous --assign-stages="stages=2 cuts=second" --split-tasks=schedule=pipedream 2>&1 | FileCheck %s --check-prefix=MARK
// RUN: not divisi-opt %s --split-microbatches=asynchronous --assign-stages="stages=2 cuts=second" --split-tasks="schedule=pipedream staleness=late" 2>&1 | FileCheck %s --check-prefix=LATE

// MANY: a pipeline of 9 stages needs as many nodes: the model has 2
// NAME: cut: there is no node 'third' in the forward pass
// KIND: schedule: expected naive, gpipe, 1f1b, interleaved, zb-h1, pipedream, pipedream-2bw, got 'zigzag'
// CHUNKS: schedule: 2 stages do not divide into 3 chunks a device
// PARTS: schedule: pipedream, and no other, is for steps of one minibatch, as split-microbatches makes them
// MARK: schedule: pipedream needs to know where the backward pass ends
// LATE: staleness: expected stashed, vertical-sync, latest, predicted, got 'late'
func.func @train(%w: tensor<3xf32> {graph.state = {name = "w", role = "parameter"}}, %x: tensor<8x3xf32> {graph.input = "x"})
    -> (tensor<f32> {graph.result = {kind = "loss"}}) {
  %0 = graph.broadcast %w {dims = array<i64: 1>} : (tensor<3xf32>) -> tensor<8x3xf32> loc("first")
  %1 = graph.mul %x, %0 : tensor<8x3xf32> loc("first")
  %2 = graph.tanh %1 : tensor<8x3xf32> loc("second")
  %3 = graph.reduce_sum %2 {dims = array<i64: 0, 1>} : (tensor<8x3xf32>) -> tensor<f32> loc("second")
  return %3 : tensor<f32>
}
