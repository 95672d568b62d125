// RUN: divisi-opt %s --make-evaluate --canonicalize --split-input-file --verify-diagnostics | FileCheck %s

// The state is the parameters and buffers; inputs keep their attributes; @loss stays.
// CHECK: func.func @loss
// CHECK: func.func @evaluate(
// CHECK-SAME: %arg0: tensor<8x6xf32> {graph.state = {name = "fc.weight", role = "parameter", trainable = true}}
// CHECK-SAME: %arg1: tensor<8xf32> {graph.state = {name = "fc.bias", role = "parameter", trainable = false}}
// CHECK-SAME: %arg2: tensor<4x6xf32> {graph.input = "image"}
// CHECK-SAME: %arg3: tensor<4xi64> {graph.input = "label", graph.label}
// CHECK-SAME: -> (tensor<f32> {graph.result = {kind = "loss"}}, tensor<i64> {graph.result = {kind = "correct"}},
// CHECK-SAME: tensor<i64> {graph.result = {kind = "count"}})
func.func @loss(%w: tensor<8x6xf32> {graph.parameter = "fc.weight"},
                %b: tensor<8xf32> {graph.parameter = "fc.bias", graph.frozen},
                %x: tensor<4x6xf32> {graph.input = "image"},
                %l: tensor<4xi64> {graph.input = "label", graph.label}) -> (tensor<f32> {graph.loss}, tensor<4x8xf32> {graph.output = "logits"}) {
  // Dropout is its operand.
  // CHECK-NOT: graph.dropout
  // CHECK: graph.matmul %arg2, %arg0
  %d = graph.dropout %x {ratio = 0.5 : f64, stream = 0 : i64} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %0 = graph.matmul %d, %w {transpose_rhs} : (tensor<4x6xf32>, tensor<8x6xf32>) -> tensor<4x8xf32>
  %1 = graph.broadcast %b {dims = array<i64: 1>} : (tensor<8xf32>) -> tensor<4x8xf32>
  // CHECK: %[[LOGITS:.*]] = graph.add
  %2 = graph.add %0, %1 : tensor<4x8xf32>
  %3 = graph.cross_entropy %2, %l : (tensor<4x8xf32>, tensor<4xi64>) -> tensor<4xf32>
  // CHECK: %[[LOSS:.*]] = graph.reduce_sum
  %4 = graph.reduce_sum %3 {dims = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  // CHECK: %[[MOST:.*]] = graph.reduce_max %[[LOGITS]]
  // CHECK: %[[WIDE:.*]] = graph.broadcast %[[MOST]]
  // CHECK: %[[AMONG:.*]] = graph.compare {{ ?}}eq %[[LOGITS]], %[[WIDE]]
  // CHECK: graph.select %[[AMONG]]
  // CHECK: %[[BEST:.*]] = graph.reduce_min
  // CHECK: graph.compare {{ ?}}eq %[[BEST]], %arg3
  // CHECK: %[[CORRECT:.*]] = graph.reduce_sum
  // CHECK: %[[COUNT:.*]] = graph.reduce_sum
  // CHECK: return %[[LOSS]], %[[CORRECT]], %[[COUNT]]
  return %4, %2 : tensor<f32>, tensor<4x8xf32>
}

// -----

// Batch norm uses its running statistics, and nothing reduces over the batch.
// CHECK: func.func @evaluate(
// CHECK-SAME: %arg3: tensor<8xf32> {graph.state = {name = "bn.mean", role = "buffer"}}
// CHECK-SAME: -> (tensor<f32> {graph.result = {kind = "loss"}})
func.func @loss(%s: tensor<8xf32> {graph.parameter = "bn.weight"}, %b: tensor<8xf32> {graph.parameter = "bn.bias"},
                %x: tensor<4x8xf32> {graph.input = "x"}, %m: tensor<8xf32> {graph.buffer = "bn.mean"},
                %v: tensor<8xf32> {graph.buffer = "bn.var"}) -> (tensor<f32> {graph.loss}, tensor<8xf32> {graph.renews = "bn.mean"}) {
  // CHECK-NOT: batch_norm
  // CHECK: %[[MEAN:.*]] = graph.broadcast %arg3
  // CHECK: graph.sub %arg2, %[[MEAN]]
  %0, %mean, %variance = graph.batch_norm %x, %s, %b, %m, %v {dim = 1 : i64, epsilon = 1.0e-5 : f64} : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>)
  // CHECK: %[[LOSS:.*]] = graph.reduce_sum %{{.*}} {dims = array<i64: 0, 1>}
  %1 = graph.reduce_sum %0 {dims = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32>
  // CHECK: return %[[LOSS]] : tensor<f32>
  return %1, %mean : tensor<f32>, tensor<8xf32>
}

// -----

// expected-error @+1 {{expected a function @loss}}
module {
}

// -----

// A check of indices is reported with the name of its node and its range.
// CHECK: func.func @evaluate(
// CHECK-SAME: -> (tensor<f32> {graph.result = {kind = "loss"}},
// CHECK-SAME: tensor<i64> {graph.result = {kind = "index", name = "look", range = [-8, 8]}})
// CHECK: return %{{.*}}, %arg1
func.func @loss(%w: tensor<f32> {graph.parameter = "w"}, %far: tensor<i64> {graph.input = "far"})
    -> (tensor<f32> {graph.loss}, tensor<i64> {graph.check = {name = "look", range = [-8, 8]}}) {
  %0 = graph.tanh %w : tensor<f32>
  return %0, %far : tensor<f32>, tensor<i64>
}
