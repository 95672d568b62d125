// RUN: divisi-opt %s --split-input-file --accumulate-first | FileCheck %s

// Stage 1 has two devices, stage 0 one. What each stage contributes to the gradient of a parameter of both is summed over the
// microbatches there; the sum of stage 1 is then reduced, sent and added, once in a step.
// CHECK-LABEL: func.func @train
// CHECK: %[[MINE:.*]] = graph.tanh {{.*}} {dist.stage = 0 : i64}
// CHECK: %[[OTHERS:.*]] = graph.exp {{.*}} {dist.stage = 1 : i64}
// CHECK-NOT: dist.all_reduce
// CHECK-DAG: %[[SUM0:.*]] = graph.accumulate %[[MINE]] {dist.stage = 0 : i64}
// CHECK-DAG: %[[SUM1:.*]] = graph.accumulate %[[OTHERS]] {dist.stage = 1 : i64}
// CHECK: %[[ALL:.*]] = dist.all_reduce sum over ["data"] %[[SUM1]] {dist.stage = 1 : i64}
// CHECK: %[[SENT:.*]] = dist.transfer %[[ALL]]
// CHECK: graph.add %[[SUM0]], %[[SENT]]
// CHECK-NOT: graph.accumulate {{.*}}tensor<4xf32>
func.func @train(%a: tensor<4xf32> {dist.stage = 0 : i64, graph.state = {name = "a", role = "parameter"}}, %x: tensor<4xf32>, %y: tensor<4xf32>)
    -> (tensor<4xf32> {graph.renews = "a"}, tensor<f32> {graph.result = {kind = "loss"}})
    attributes {dist.partitioned = #dist.mesh<"data"=2>, dist.stage_axes = [[], ["data"]], graph.microbatches = 4 : i64} {
  %0 = graph.tanh %x {dist.stage = 0 : i64} : tensor<4xf32>
  %1 = graph.exp %y {dist.stage = 1 : i64} : tensor<4xf32>
  %2 = dist.all_reduce sum over ["data"] %1 {dist.stage = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %3 = dist.transfer %2 dims [[[], []]] {dist.stage = 1 : i64} : tensor<4xf32> -> tensor<4xf32>
  %4 = graph.add %0, %3 {dist.stage = 0 : i64} : tensor<4xf32>
  %5 = graph.accumulate %4 {dist.stage = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  // A loss that is reduced for each microbatch and read by another operation of it stays.
  // CHECK: dist.all_reduce sum over ["data"] %{{.*}} : (tensor<f32>) -> tensor<f32>
  // CHECK: graph.accumulate
  %6 = graph.reduce_sum %1 {dims = array<i64: 0>, dist.stage = 1 : i64} : (tensor<4xf32>) -> tensor<f32>
  %7 = dist.all_reduce sum over ["data"] %6 {dist.stage = 1 : i64} : (tensor<f32>) -> tensor<f32>
  %8 = graph.mul %7, %7 {dist.stage = 1 : i64} : tensor<f32>
  %9 = graph.accumulate %8 {dist.stage = 1 : i64} : (tensor<f32>) -> tensor<f32>
  %10 = graph.sub %a, %5 {dist.stage = 0 : i64} : tensor<4xf32>
  return %10, %9 : tensor<4xf32>, tensor<f32>
}

// -----

// Stages with the same axes: the sum of two stages' parts is taken once in a step. A reduction over devices before the sum over
// the microbatches stays where the plan has it.
// CHECK-LABEL: func.func @train
// CHECK: dist.all_reduce sum over ["data"] %{{.*}} {dist.stage = 1 : i64}
// CHECK: %[[SUM0:.*]] = graph.accumulate %{{.*}} {dist.stage = 0 : i64}
// CHECK: %[[SUM1:.*]] = graph.accumulate %{{.*}} {dist.stage = 1 : i64}
// CHECK: %[[ALL:.*]] = graph.add %[[SUM0]], %[[SUM1]] {dist.stage = 0 : i64}
// CHECK: graph.sub %arg0, %[[ALL]]
// A sum of one stage alone is not split.
// CHECK: %[[OWN:.*]] = graph.add {{.*}} {dist.stage = 1 : i64}
// CHECK: graph.accumulate %[[OWN]]
func.func @train(%a: tensor<4xf32> {dist.stage = 0 : i64, graph.state = {name = "a", role = "parameter"}}, %x: tensor<4xf32>, %y: tensor<4xf32>)
    -> (tensor<4xf32> {graph.renews = "a"}, tensor<4xf32> {graph.result = {kind = "loss"}})
    attributes {dist.partitioned = #dist.mesh<"data"=2>, graph.microbatches = 4 : i64} {
  %0 = graph.tanh %x {dist.stage = 0 : i64} : tensor<4xf32>
  %1 = graph.exp %y {dist.stage = 1 : i64} : tensor<4xf32>
  %2 = dist.all_reduce sum over ["data"] %1 {dist.stage = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %3 = graph.add %0, %2 {dist.stage = 0 : i64} : tensor<4xf32>
  %4 = graph.accumulate %3 {dist.stage = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %5 = graph.sub %a, %4 {dist.stage = 0 : i64} : tensor<4xf32>
  %6 = graph.add %2, %1 {dist.stage = 1 : i64} : tensor<4xf32>
  %7 = graph.accumulate %6 {dist.stage = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return %5, %7 : tensor<4xf32>, tensor<4xf32>
}

// -----

// A parameter that stage 0 uses twice and stage 1 three times: one sum over the microbatches for each, of additions on the stage.
// CHECK-LABEL: func.func @train
// CHECK: %[[X:.*]] = graph.tanh
// CHECK: %[[Y:.*]] = graph.exp
// CHECK: %[[TWO:.*]] = graph.add %[[Y]], %[[Y]] {dist.stage = 1 : i64}
// CHECK: %[[THREE:.*]] = graph.add {{.*}} {dist.stage = 1 : i64}
// CHECK: %[[OWN:.*]] = graph.add %[[X]], %[[X]] {dist.stage = 0 : i64}
// CHECK-NOT: graph.add
// CHECK-DAG: %[[A:.*]] = graph.accumulate %[[THREE]] {dist.stage = 1 : i64}
// CHECK-DAG: %[[B:.*]] = graph.accumulate %[[OWN]] {dist.stage = 0 : i64}
// CHECK: graph.add {{.*}} {dist.stage = 0 : i64}
// CHECK-NOT: graph.add
// CHECK: graph.sub
func.func @train(%a: tensor<4xf32> {dist.stage = 0 : i64, graph.state = {name = "a", role = "parameter"}}, %x: tensor<4xf32>, %y: tensor<4xf32>)
    -> (tensor<4xf32> {graph.renews = "a"})
    attributes {dist.partitioned = #dist.mesh<"data"=2>, graph.microbatches = 4 : i64} {
  %0 = graph.tanh %x {dist.stage = 0 : i64} : tensor<4xf32>
  %1 = graph.exp %y {dist.stage = 1 : i64} : tensor<4xf32>
  %2 = graph.add %1, %1 {dist.stage = 1 : i64} : tensor<4xf32>
  %3 = graph.add %2, %0 {dist.stage = 0 : i64} : tensor<4xf32>
  %4 = graph.add %3, %1 {dist.stage = 0 : i64} : tensor<4xf32>
  %5 = graph.add %4, %0 {dist.stage = 0 : i64} : tensor<4xf32>
  %6 = graph.accumulate %5 {dist.stage = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %7 = graph.sub %a, %6 {dist.stage = 0 : i64} : tensor<4xf32>
  return %7 : tensor<4xf32>
}
