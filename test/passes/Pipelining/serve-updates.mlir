// RUN: divisi-opt %s --serve-updates --split-input-file --verify-diagnostics | FileCheck %s

// Two servers of two stages: the update of a stage becomes two, of the larger parameter and of the smaller one. All exchange the norm with the
// other stage, and the schedule of each stage has both.
// CHECK-LABEL: func.func @train.0.finish
// CHECK-SAME: %arg0: tensor<8xf32> {dist.held = {kind = "sum", name = "a"}, dist.pushed = "sum"}, %arg1: tensor<4xf32> {dist.held = {kind = "sum", name = "b"}, dist.pushed = "sum"}
// CHECK-SAME: -> (tensor<8xf32> {graph.renews = "a"}, tensor<i64> {graph.renews = "divisi.step"})
// CHECK: dist.send %{{.*}} to 1 id 2
// CHECK: dist.receive from 1 id 3
// CHECK-LABEL: func.func @train.2.finish
// CHECK-SAME: -> (tensor<4xf32> {graph.renews = "b"}, tensor<i64> {graph.renews = "divisi.step"})
// CHECK-SAME: dist.stage = 0
// CHECK: dist.send %{{.*}} to 1 id 2
// CHECK: dist.receive from 1 id 3
// CHECK-LABEL: func.func @train.1.finish
// CHECK-SAME: -> (tensor<8xf32> {graph.renews = "c"}, tensor<i64> {graph.renews = "divisi.step"})
// CHECK: dist.receive from 0 id 2
// CHECK: dist.send %{{.*}} to 0 id 3
// CHECK-LABEL: func.func @train.3.finish
// CHECK-SAME: -> (tensor<i64> {graph.renews = "divisi.step"})
// CHECK-SAME: dist.stage = 1
// CHECK: dist.receive from 0 id 2
// CHECK: dist.send %{{.*}} to 0 id 3
// CHECK: dist.schedule "train" "gpipe" microbatches 1
// CHECK-SAME: ["0.finish 0", "2.finish 0"], ["1.finish 0", "3.finish 0"]
module attributes {dist.sync = {mode = "server", servers = 2 : i64}} {
  func.func @train.0.finish(%ga: tensor<8xf32> {dist.held = {kind = "sum", name = "a"}}, %gb: tensor<4xf32> {dist.held = {kind = "sum", name = "b"}},
      %a: tensor<8xf32> {graph.state = {name = "a", role = "parameter", trainable = true}}, %b: tensor<4xf32> {graph.state = {name = "b", role = "parameter", trainable = true}},
      %step: tensor<i64> {graph.state = {name = "divisi.step", role = "step"}})
      -> (tensor<8xf32> {graph.renews = "a"}, tensor<4xf32> {graph.renews = "b"}, tensor<i64> {graph.renews = "divisi.step"})
      attributes {dist.partitioned = #dist.mesh<"stage" = 2, "data" = 2>, dist.stage = 0 : i64} {
    %0:2 = dist.all_reduce sum over ["data"] %ga, %gb : (tensor<8xf32>, tensor<4xf32>) -> (tensor<8xf32>, tensor<4xf32>)
    %1 = graph.reduce_sum %0#0 {dims = array<i64: 0>} : (tensor<8xf32>) -> tensor<f32>
    %2 = graph.reduce_sum %0#1 {dims = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
    %3 = graph.add %1, %2 : tensor<f32>
    dist.send %3 to 1 id 2 : tensor<f32>
    %4 = dist.receive from 1 id 3 : tensor<f32>
    %5 = graph.broadcast %4 {dims = array<i64>} : (tensor<f32>) -> tensor<8xf32>
    %6 = graph.broadcast %4 {dims = array<i64>} : (tensor<f32>) -> tensor<4xf32>
    %7 = graph.sub %a, %5 : tensor<8xf32>
    %8 = graph.sub %b, %6 : tensor<4xf32>
    %9 = graph.add %step, %step : tensor<i64>
    return %7, %8, %9 : tensor<8xf32>, tensor<4xf32>, tensor<i64>
  }
  func.func @train.1.finish(%gc: tensor<8xf32> {dist.held = {kind = "sum", name = "c"}},
      %c: tensor<8xf32> {graph.state = {name = "c", role = "parameter", trainable = true}}, %step: tensor<i64> {graph.state = {name = "divisi.step", role = "step"}})
      -> (tensor<8xf32> {graph.renews = "c"}, tensor<i64> {graph.renews = "divisi.step"})
      attributes {dist.partitioned = #dist.mesh<"stage" = 2, "data" = 2>, dist.stage = 1 : i64} {
    %0 = dist.all_reduce sum over ["data"] %gc : (tensor<8xf32>) -> tensor<8xf32>
    %1 = graph.reduce_sum %0 {dims = array<i64: 0>} : (tensor<8xf32>) -> tensor<f32>
    %2 = dist.receive from 0 id 2 : tensor<f32>
    %3 = graph.add %1, %2 : tensor<f32>
    dist.send %3 to 0 id 3 : tensor<f32>
    %4 = graph.broadcast %3 {dims = array<i64>} : (tensor<f32>) -> tensor<8xf32>
    %5 = graph.sub %c, %4 : tensor<8xf32>
    %6 = graph.add %step, %step : tensor<i64>
    return %5, %6 : tensor<8xf32>, tensor<i64>
  }
  dist.schedule "train" "gpipe" microbatches 1 [["0.finish 0"], ["1.finish 0"]]
}

// -----

// What another stage has computed before its update is on a worker, and not on a server.
module attributes {dist.sync = {mode = "server", servers = 1 : i64}} {
  func.func @train.0.start(%x: tensor<f32> {graph.input = "x"}) attributes {dist.partitioned = #dist.mesh<"stage" = 2, "data" = 2>, dist.stage = 0 : i64} {
    dist.send %x to 1 id 0 : tensor<f32>
    return
  }
  func.func @train.1.finish(%c: tensor<f32> {graph.state = {name = "c", role = "parameter", trainable = true}}) -> (tensor<f32> {graph.renews = "c"})
      attributes {dist.partitioned = #dist.mesh<"stage" = 2, "data" = 2>, dist.stage = 1 : i64} {
    %0 = dist.receive from 0 id 0 : tensor<f32>
    // expected-error @below {{the update of a stage reads what another stage has computed before: take --servers colocated}}
    %1 = graph.sub %c, %0 : tensor<f32>
    return %1 : tensor<f32>
  }
}

// -----

// A schedule must have a row for each stage.
module attributes {dist.sync = {mode = "server", servers = 2 : i64}} {
  func.func @train.1.finish(%c: tensor<f32> {graph.state = {name = "c", role = "parameter", trainable = true}}) -> (tensor<f32> {graph.renews = "c"})
      attributes {dist.partitioned = #dist.mesh<"stage" = 2, "data" = 2>, dist.stage = 1 : i64} {
    return %c : tensor<f32>
  }
  // expected-error @below {{has no row for stage 1}}
  dist.schedule "train" "gpipe" microbatches 1 [["0.finish 0"]]
}

// -----

module attributes {dist.sync = {mode = "server", servers = 2 : i64}} {
  // expected-error @below {{has a stage above 1048576}}
  func.func @train.9223372036854775807.finish(%c: tensor<f32> {graph.state = {name = "c", role = "parameter", trainable = true}}) -> (tensor<f32> {graph.renews = "c"})
      attributes {dist.partitioned = #dist.mesh<"stage" = 2, "data" = 2>, dist.stage = 1 : i64} {
    return %c : tensor<f32>
  }
}
