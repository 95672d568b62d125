// RUN: divisi-opt %s --split-microbatches="asynchronous" --assign-stages="stages=3 cuts=second,third" --split-tasks="schedule=pipedream" \
// RUN:   | FileCheck %s
// RUN: divisi-opt %s --split-microbatches="asynchronous" --assign-stages="stages=3 cuts=second,third" \
// RUN:   --split-tasks="schedule=pipedream staleness=vertical-sync" | FileCheck %s --check-prefix=SYNC
// RUN: divisi-opt %s --split-microbatches="asynchronous" --assign-stages="stages=3 cuts=second,third" \
// RUN:   --split-tasks="schedule=pipedream staleness=latest" | FileCheck %s --check-prefix=LATEST
// RUN: divisi-opt %s --split-microbatches="asynchronous" --assign-stages="stages=3 cuts=second,third" \
// RUN:   --split-tasks="schedule=pipedream staleness=predicted" | FileCheck %s --check-prefix=PREDICTED

// The input of a minibatch, and the weights of its forward pass where its backward pass reads them, wait in its slot; the update reads the
// newest weights and, at once, the gradient.
// CHECK-LABEL: func.func @train.0.forward
// CHECK-SAME: graph.input = "x"
// CHECK-SAME: -> ({{.*}}tensor<8x3xf32> {dist.held = {kind = "microbatch", name = "[[X:value [0-9]+]]"}}
// CHECK-LABEL: func.func @train.0.backward
// CHECK-SAME: tensor<8x3xf32> {dist.held = {kind = "microbatch", name = "[[X]]"}}
// CHECK-SAME: -> (tensor<3x4xf32> {dist.held = {kind = "step", name = "[[G:value [0-9]+]]"}})
// CHECK-LABEL: func.func @train.0.finish
// CHECK-SAME: tensor<3x4xf32> {dist.held = {kind = "step", name = "[[G]]"}}
// CHECK-LABEL: func.func @train.1.forward
// CHECK-SAME: %[[B:[a-z0-9]+]]: tensor<4x4xf32> {graph.state = {name = "b"
// CHECK-SAME: tensor<4x4xf32> {dist.held = {kind = "microbatch", name = "[[W:value [0-9]+]]"}}
// CHECK: return {{.*}}%[[B]]
// CHECK-LABEL: func.func @train.1.backward
// CHECK-NOT: graph.state
// CHECK-SAME: tensor<4x4xf32> {dist.held = {kind = "microbatch", name = "[[W]]"}}
// CHECK-LABEL: func.func @train.1.finish
// CHECK-SAME: graph.state = {name = "b"
// The last stage updates its weights before the next minibatch comes.
// CHECK-LABEL: func.func @train.2.backward
// CHECK-SAME: graph.state = {name = "c"
// CHECK: dist.schedule "train" "pipedream" microbatches 1
// CHECK-SAME{LITERAL}: [["0.forward 0", "0.backward -2", "0.finish -2"], ["1.forward 0", "1.backward -1", "1.finish -1"], ["2.forward 0", "2.backward 0", "2.finish 0"]]

// A copy for the minibatch that comes as many steps later as the stage has before it.
// SYNC-LABEL: func.func @train.2.stash
// SYNC-SAME: graph.state = {name = "c"
// SYNC-SAME: tensor<4x5xf32> {dist.held = {kind = "microbatch", name = "[[C:value [0-9]+]]"}}
// SYNC-LABEL: func.func @train.2.forward
// SYNC-SAME: tensor<4x5xf32> {dist.held = {kind = "microbatch", name = "[[C]]"}}
// SYNC: dist.schedule "train" "pipedream" microbatches 1
// SYNC-SAME{LITERAL}: [["0.stash 0", "0.forward 0", "0.backward -2", "0.finish -2"], ["1.stash 1", "1.forward 0", "1.backward -1", "1.finish -1"], ["2.stash 2", "2.forward 0", "2.backward 0", "2.finish 0"]]

// LATEST-LABEL: func.func @train.1.backward
// LATEST-SAME: graph.state = {name = "b"

// SpecTrain: stage 1 of 3 is 1 / 2 + 3 - 1 - 1 = 1 update behind in the forward and none in the backward pass.
// PREDICTED-LABEL: func.func @train.1.forward
// PREDICTED-SAME: %[[B:[a-z0-9]+]]: tensor<4x4xf32> {graph.state = {name = "b", role = "parameter"}}
// PREDICTED: %[[STEP:.*]] = graph.broadcast
// PREDICTED: %[[FAR:.*]] = graph.mul %[[STEP]]
// PREDICTED: %[[NEXT:.*]] = graph.sub %[[B]], %[[FAR]]
// PREDICTED: graph.matmul %{{.*}}, %[[NEXT]]
func.func @train(%a: tensor<3x4xf32> {graph.state = {name = "a", role = "parameter"}},
                 %b: tensor<4x4xf32> {graph.state = {name = "b", role = "parameter"}}, %c: tensor<4x5xf32> {graph.state = {name = "c", role = "parameter"}},
                 %va: tensor<3x4xf32> {graph.state = {name = "a.momentum", role = "moment", moment = "momentum", rule = {optimizer = "sgd", momentum = 0.9}, of = "a"}},
                 %vb: tensor<4x4xf32> {graph.state = {name = "b.momentum", role = "moment", moment = "momentum", rule = {optimizer = "sgd", momentum = 0.9}, of = "b"}},
                 %vc: tensor<4x5xf32> {graph.state = {name = "c.momentum", role = "moment", moment = "momentum", rule = {optimizer = "sgd", momentum = 0.9}, of = "c"}},
                 %count: tensor<i64> {graph.state = {name = "divisi.step", role = "step"}},
                 %rate: tensor<f32> {graph.scalar = "learning_rate"}, %x: tensor<8x3xf32> {graph.input = "x"})
    -> (tensor<3x4xf32> {graph.renews = "a"}, tensor<4x4xf32> {graph.renews = "b"}, tensor<4x5xf32> {graph.renews = "c"},
        tensor<f32> {graph.result = {kind = "loss"}}) {
  %0 = graph.matmul %x, %a : (tensor<8x3xf32>, tensor<3x4xf32>) -> tensor<8x4xf32> loc("first")
  %1 = graph.tanh %0 : tensor<8x4xf32> loc("first")
  %2 = graph.matmul %1, %b : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32> loc("second")
  %3 = graph.tanh %2 : tensor<8x4xf32> loc("second")
  %4 = graph.matmul %3, %c : (tensor<8x4xf32>, tensor<4x5xf32>) -> tensor<8x5xf32> loc("third")
  %5 = graph.tanh %4 : tensor<8x5xf32> loc("third")
  %6 = graph.reduce_sum %5 {dims = array<i64: 0, 1>} : (tensor<8x5xf32>) -> tensor<f32> loc("third")
  %gc = graph.matmul %3, %5 {transpose_lhs} : (tensor<8x4xf32>, tensor<8x5xf32>) -> tensor<4x5xf32> loc("third")
  %7 = graph.matmul %5, %c {transpose_rhs} : (tensor<8x5xf32>, tensor<4x5xf32>) -> tensor<8x4xf32> loc("third")
  %8 = graph.mul %7, %3 : tensor<8x4xf32> loc("second")
  %gb = graph.matmul %1, %8 {transpose_lhs} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32> loc("second")
  %9 = graph.matmul %8, %b {transpose_rhs} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32> loc("second")
  %10 = graph.mul %9, %1 : tensor<8x4xf32> loc("first")
  %ga = graph.matmul %x, %10 {transpose_lhs} : (tensor<8x3xf32>, tensor<8x4xf32>) -> tensor<3x4xf32> loc("first")
  %sa = graph.accumulate %ga : (tensor<3x4xf32>) -> tensor<3x4xf32> loc("a")
  %sb = graph.accumulate %gb : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("b")
  %sc = graph.accumulate %gc : (tensor<4x5xf32>) -> tensor<4x5xf32> loc("c")
  %na = graph.sub %a, %sa : tensor<3x4xf32> loc("a")
  %nb = graph.sub %b, %sb : tensor<4x4xf32> loc("b")
  %nc = graph.sub %c, %sc : tensor<4x5xf32> loc("c")
  return %na, %nb, %nc, %6 : tensor<3x4xf32>, tensor<4x4xf32>, tensor<4x5xf32>, tensor<f32>
}
