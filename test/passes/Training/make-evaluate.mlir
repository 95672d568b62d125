// RUN: divisi-opt %s --make-evaluate --canonicalize --split-input-file --verify-diagnostics | FileCheck %s

// The state is the parameters and buffers; inputs keep their attributes; @loss stays.
// CHECK: func.func @loss
// CHECK: func.func @evaluate(
// CHECK-SAME: %arg0: tensor<8x6xf32> {graph.state = {name = "fc.weight", role = "parameter", trainable = true}}
// CHECK-SAME: %arg1: tensor<8xf32> {graph.state = {name = "fc.bias", role = "parameter", trainable = false}}
// CHECK-SAME: %arg2: tensor<4x6xf32> {graph.input = "image"}
// CHECK-SAME: %arg3: tensor<4xi64> {graph.input = "label", graph.label}
// CHECK-SAME: %arg4: tensor<i64> {graph.scalar = "rows"})
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
  // The sum of the rows that a last batch has.
  // CHECK: %[[ROW:.*]] = graph.iota {dim = 0 : i64} : tensor<4xi64>
  // CHECK: %[[ROWS:.*]] = graph.broadcast %arg4
  // CHECK: %[[VALID:.*]] = graph.compare {{ ?}}lt %[[ROW]], %[[ROWS]]
  // CHECK: %[[KEPT:.*]] = graph.select %[[VALID]], %{{.*}}, %{{.*}} : (tensor<4xi1>
  // CHECK: %[[LOSS:.*]] = graph.reduce_sum %[[KEPT]]
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

// Samples lie side by side in a reshaped value; a maximum ignores rows that are missing. The sum that is divided by a multiple of
// the batch is scaled behind the division, a sum that is divided by another one or by another number is not.
// CHECK: func.func @evaluate(
// CHECK: %[[LOWEST:.*]] = graph.constant dense<0xFF800000>
// CHECK: %[[TOKEN:.*]] = graph.iota {dim = 0 : i64} : tensor<12xi64>
// CHECK: %[[SAMPLE:.*]] = graph.div %[[TOKEN]], %{{.*}} : tensor<12xi64>
// CHECK: graph.compare {{ ?}}lt %[[SAMPLE]]
// CHECK: graph.select %{{.*}}, %{{.*}}, %[[LOWEST]]
// CHECK: graph.reduce_max
// CHECK: %[[NUMBER:.*]] = graph.reduce_sum {{.*}} -> tensor<i64>
// CHECK: %[[FLOAT:.*]] = graph.cast %[[NUMBER]] : (tensor<i64>) -> tensor<f32>
// CHECK: %[[RATIO:.*]] = graph.div %{{.*}}, %[[FLOAT]]
// CHECK: %[[MEAN:.*]] = graph.mul %{{.*}}, %{{.*}} {mean}
// CHECK: %[[ROWS:.*]] = graph.cast %arg2 : (tensor<i64>) -> tensor<f32>
// CHECK: %[[FACTOR:.*]] = graph.div %{{.*}}, %[[ROWS]]
// CHECK: %[[SCALED:.*]] = graph.mul %[[MEAN]], %[[FACTOR]]
// CHECK: %[[FIFTH:.*]] = graph.div %{{.*}}, %{{.*}} {fifth}
// CHECK: graph.add %[[SCALED]], %[[FIFTH]]
func.func @loss(%x: tensor<4x3xf32> {graph.input = "x"}, %w: tensor<f32> {graph.parameter = "w"}) -> (tensor<f32> {graph.loss}) {
  %0 = graph.reshape %x : (tensor<4x3xf32>) -> tensor<12xf32>
  %1 = graph.reduce_sum %0 {dims = array<i64: 0>} : (tensor<12xf32>) -> tensor<f32>
  %2 = graph.reduce_max %x {dims = array<i64: 0>} : (tensor<4x3xf32>) -> tensor<3xf32>
  %3 = graph.reduce_sum %2 {dims = array<i64: 0>} : (tensor<3xf32>) -> tensor<f32>
  %zero = graph.constant dense<0.0> : tensor<4x3xf32>
  %positive = graph.compare gt %x, %zero : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xi1>
  %one = graph.cast %positive : (tensor<4x3xi1>) -> tensor<4x3xi64>
  %count = graph.reduce_sum %one {dims = array<i64: 0, 1>} : (tensor<4x3xi64>) -> tensor<i64>
  %number = graph.cast %count : (tensor<i64>) -> tensor<f32>
  %4 = graph.div %1, %number : tensor<f32>
  %twelfth = graph.constant dense<0.083333333> : tensor<f32>
  %five = graph.constant dense<5.0> : tensor<f32>
  %mean = graph.mul %1, %twelfth {mean} : tensor<f32>
  %fifth = graph.div %1, %five {fifth} : tensor<f32>
  %sum = graph.add %mean, %fifth : tensor<f32>
  %all = graph.add %sum, %4 : tensor<f32>
  %5 = graph.add %3, %all : tensor<f32>
  %6 = graph.mul %5, %w : tensor<f32>
  return %6 : tensor<f32>
}

// -----

// Losses that the compiler adds know the number of rows.
// CHECK: func.func @evaluate({{.*}}, %arg1: tensor<i64> {graph.scalar = "rows"})
// CHECK-NOT: graph.iota
func.func @loss(%x: tensor<4xf32> {graph.input = "x"}, %rows: tensor<i64> {graph.scalar = "rows"}) -> (tensor<f32> {graph.loss}) {
  %0 = graph.reduce_sum %x {dims = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  return %0 : tensor<f32>
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
