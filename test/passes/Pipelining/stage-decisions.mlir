// RUN: divisi-opt %s --make-train="loss-scaling=true mark-gradients=true optimizer=adam" --canonicalize --split-microbatches="asynchronous" \
// RUN:   --assign-stages="stages=3 cuts=second,third" --split-tasks="schedule=pipedream" --canonicalize | FileCheck %s
// RUN: divisi-opt %s --make-train="loss-scaling=true mark-gradients=true" --canonicalize --split-microbatches="asynchronous" \
// RUN:   --assign-stages="stages=3 cuts=second,third" --split-tasks="schedule=pipedream replicas=1,2,1" --canonicalize | FileCheck %s --check-prefix=ROUND

// Each stage counts what it skips.
// CHECK: graph.state_order = [{{.*}}"divisi.skipped_steps", {{.*}}"divisi.skipped_steps.1", "divisi.skipped_steps.2"]

// The first stage sends the scale with each minibatch, and keeps it for its own backward pass.
// CHECK-LABEL: func.func @train.0.forward
// CHECK-SAME: %[[SCALE:[a-z0-9]+]]: tensor<f32> {graph.state = {name = "divisi.loss_scale_offset", role = "scaling"}}
// CHECK-SAME: tensor<f32> {dist.held = {kind = "microbatch", name = "[[KEPT:value [0-9]+]]"}}
// CHECK-DAG: dist.send %[[SCALE]] to 1 id [[TO1:[0-9]+]]
// CHECK-DAG: dist.send %[[SCALE]] to 2 id [[TO2:[0-9]+]]
// Its own elements that are not finite come to those of later stages.
// CHECK-LABEL: func.func @train.0.backward
// CHECK-SAME: %[[OLD:[a-z0-9]+]]: tensor<f32> {dist.held = {kind = "microbatch", name = "[[KEPT]]"}}
// CHECK: %[[LATER:.*]] = dist.receive from 1 id [[FROM1:[0-9]+]] : tensor<f32>
// CHECK: %[[SUM:.*]] = graph.add %[[OLD]], %{{.*}} : tensor<f32>
// CHECK: graph.reciprocal %[[SUM]]
// CHECK: %[[MINE:.*]] = graph.reduce_sum
// CHECK: %[[ALL:.*]] = graph.add %[[LATER]], %[[MINE]]
// CHECK: return %[[ALL]]
// The newest scale is renewed.
// CHECK-LABEL: func.func @train.0.finish
// CHECK-SAME: name = "divisi.skipped_steps", role = "scaling"
// CHECK-SAME: name = "divisi.loss_scale_offset", role = "scaling"
// CHECK-SAME: graph.renews = "divisi.loss_scale_offset"

// CHECK-LABEL: func.func @train.1.forward
// CHECK: dist.receive from 0 id [[TO1]] : tensor<f32>
// CHECK-LABEL: func.func @train.1.backward
// CHECK: %[[LATER:.*]] = dist.receive from 2 id [[FROM2:[0-9]+]] : tensor<f32>
// CHECK: %[[ALL:.*]] = graph.add %[[LATER]], %{{.*}} : tensor<f32>
// CHECK: dist.send %[[ALL]] to 0 id [[FROM1]]
// Its own count of skipped updates, for adam and renewed; nothing of the first stage's.
// CHECK-LABEL: func.func @train.1.finish
// CHECK-NOT: "divisi.skipped_steps"
// CHECK-SAME: %[[SKIPPED:[a-z0-9]+]]: tensor<i64> {graph.state = {name = "divisi.skipped_steps.1", role = "scaling"}}
// CHECK-NOT: loss_scale
// CHECK: graph.sub %{{.*}}, %[[SKIPPED]] : tensor<i64>

// CHECK-LABEL: func.func @train.2.forward
// CHECK: dist.receive from 0 id [[TO2]] : tensor<f32>
// CHECK-LABEL: func.func @train.2.backward
// CHECK-NOT: dist.receive
// CHECK: %[[MINE:.*]] = graph.reduce_sum
// CHECK: dist.send %[[MINE]] to 1 id [[FROM2]]

// Replicas in turn skip a round, and count its minibatches. What a minibatch leaves for that comes by its own backward task, for the
// update reads the slots of the last minibatch on all replicas.
// ROUND-LABEL: func.func @train.1.forward
// ROUND-SAME: tensor<i64> {dist.held = {kind = "microbatch", name = "[[ONE:value [0-9]+]]"}}
// ROUND-LABEL: func.func @train.1.backward
// ROUND-SAME: tensor<i64> {dist.held = {kind = "microbatch", name = "[[ONE]]"}}
// ROUND-SAME: -> ({{.*}}tensor<i64> {dist.held = {kind = "step", name = "[[EACH:value [0-9]+]]"}}
// ROUND-LABEL: func.func @train.1.finish
// ROUND-SAME: %[[SKIPPED:[a-z0-9]+]]: tensor<i64> {graph.state = {name = "divisi.skipped_steps.1", role = "scaling"}}
// ROUND-SAME: tensor<i64> {dist.held = {kind = "step", name = "[[EACH]]"}}
// ROUND: %[[COUNT:.*]] = dist.all_reduce sum over ["turn"] %{{.*}} : (tensor<i64>) -> tensor<i64>
// ROUND: graph.add %[[SKIPPED]], %[[COUNT]] : tensor<i64>
func.func @loss(%a: tensor<3x4xf32> {graph.parameter = "a"}, %b: tensor<4x4xf32> {graph.parameter = "b"},
                %c: tensor<4x5xf32> {graph.parameter = "c"}, %x: tensor<8x3xf32> {graph.input = "x"}) -> (tensor<f32> {graph.loss}) {
  %0 = graph.matmul %x, %a : (tensor<8x3xf32>, tensor<3x4xf32>) -> tensor<8x4xf32> loc("first")
  %1 = graph.tanh %0 : tensor<8x4xf32> loc("first")
  %2 = graph.matmul %1, %b : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32> loc("second")
  %3 = graph.tanh %2 : tensor<8x4xf32> loc("second")
  %4 = graph.matmul %3, %c : (tensor<8x4xf32>, tensor<4x5xf32>) -> tensor<8x5xf32> loc("third")
  %5 = graph.tanh %4 : tensor<8x5xf32> loc("third")
  %6 = graph.reduce_sum %5 {dims = array<i64: 0, 1>} : (tensor<8x5xf32>) -> tensor<f32> loc("third")
  return %6 : tensor<f32>
}
