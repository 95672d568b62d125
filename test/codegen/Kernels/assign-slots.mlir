// RUN: divisi-opt %s --form-kernels --place-awaits --assign-buffers | FileCheck %s

// Two microbatches are in flight: what forward leaves for backward has two buffer slots of 64 bytes (after 128 of input and scalar), and is at
// the slot's first byte (1 << 62 marks slots). A sum is updated in its place.
// CHECK: module attributes {exec.arena_bytes = [[#]] : i64}
// CHECK: func.func @train.0.forward
// CHECK-SAME: -> (tensor<4xf32> {dist.held = {kind = "microbatch", name = "value 0"}, exec.offset = 4611686018427387904 : i64})
// CHECK: exec.kernel {{.*}} {offsets = array<i64: 4611686018427387904>}
// CHECK: func.func @train.0.backward
// CHECK-SAME: %arg0: tensor<4xf32> {dist.held = {kind = "microbatch", name = "value 0"}, exec.offset = 4611686018427387904 : i64}
// CHECK-SAME: %arg1: tensor<4xf32> {dist.held = {kind = "sum", name = "sum 0"}, exec.offset = [[SUM:[0-9]+]] : i64}
// CHECK: exec.kernel {{.*}} {offsets = array<i64: [[SUM]]>}
// CHECK: dist.schedule
// Tasks that run once in a step have no slot.
// CHECK-SAME: {exec.slots = [array<i64: 0, 128, 192, 128, 128, 192, 128, 0>]}
module {
  func.func @train.0.forward(%x: tensor<4xf32> {graph.input = "x"})
      -> (tensor<4xf32> {dist.held = {kind = "microbatch", name = "value 0"}}) attributes {dist.stage = 0 : i64} {
    %0 = graph.tanh %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func @train.0.backward(%v: tensor<4xf32> {dist.held = {kind = "microbatch", name = "value 0"}},
                              %s: tensor<4xf32> {dist.held = {kind = "sum", name = "sum 0"}})
      -> (tensor<4xf32> {dist.held = {kind = "sum", name = "sum 0"}}) attributes {dist.stage = 0 : i64} {
    %0 = graph.add %s, %v : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func @train.0.start() attributes {dist.stage = 0 : i64} {
    return
  }
  func.func @train.0.finish() attributes {dist.stage = 0 : i64} {
    return
  }
  dist.schedule "train" "1f1b" microbatches 3 [["0.start 0", "0.forward 0", "0.forward 1", "0.backward 0", "0.forward 2", "0.backward 1", "0.backward 2", "0.finish 0"]]
}
