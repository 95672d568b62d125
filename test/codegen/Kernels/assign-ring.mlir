// RUN: divisi-opt %s --form-kernels --place-awaits --assign-buffers | FileCheck %s

// Minibatches of an asynchronous schedule use the buffer slots in turn: three of 64 bytes after the 128 of input and gradient, from the newest minibatch to the second before it.
// An entry has the first slot, the bytes of a slot, and the number of slots.
// CHECK: dist.schedule
// CHECK-SAME: {exec.slots = [array<i64: 128, 64, 3, 128, 64, 3>]}
module {
  func.func @train.0.forward(%x: tensor<4xf32> {graph.input = "x"})
      -> (tensor<4xf32> {dist.held = {kind = "microbatch", name = "value 0"}}) attributes {dist.stage = 0 : i64} {
    %0 = graph.tanh %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func @train.0.backward(%v: tensor<4xf32> {dist.held = {kind = "microbatch", name = "value 0"}})
      -> (tensor<4xf32> {dist.held = {kind = "step", name = "value 1"}}) attributes {dist.stage = 0 : i64} {
    %0 = graph.tanh %v : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  dist.schedule "train" "pipedream" microbatches 1 [["0.forward 0", "0.backward -2"]]
}
