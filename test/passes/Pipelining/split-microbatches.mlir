// RUN: divisi-opt %s --split-microbatches=count=4 --canonicalize --cse --split-input-file | FileCheck %s

// The batch of 8 becomes 4 parts of 2, of which the scalar picks one; the gradient is summed, the update runs once.
// CHECK-LABEL: func.func @train
// CHECK-SAME: %[[X:arg[0-9]]]: tensor<4x2x3xf32> {graph.input = "x", graph.microbatches = 4 : i64}
// CHECK-SAME: %[[I:arg[0-9]]]: tensor<i64> {graph.scalar = "microbatch"}
// CHECK-SAME: attributes {graph.microbatches = 4 : i64}
// CHECK: %[[AT:.*]] = graph.reshape %[[I]] : (tensor<i64>) -> tensor<1xi64>
// CHECK: %[[ONE:.*]] = graph.gather %[[X]], %[[AT]] {dim = 0 : i64} : (tensor<4x2x3xf32>, tensor<1xi64>) -> tensor<1x2x3xf32>
// CHECK: %[[PART:.*]] = graph.reshape %[[ONE]] : (tensor<1x2x3xf32>) -> tensor<2x3xf32>
// CHECK: %[[H:.*]] = graph.matmul %[[PART]], %arg0 : (tensor<2x3xf32>, tensor<3x5xf32>) -> tensor<2x5xf32>
// CHECK: %[[G:.*]] = graph.matmul %[[PART]], %{{.*}} {transpose_lhs}
// CHECK: %[[SUM:.*]] = graph.accumulate %[[G]]
// CHECK: graph.sub %arg0, %[[SUM]]
func.func @train(%w: tensor<3x5xf32> {graph.state = {name = "w", role = "parameter"}}, %x: tensor<8x3xf32> {graph.input = "x"})
    -> (tensor<3x5xf32> {graph.renews = "w"}, tensor<f32> {graph.result = {kind = "loss"}}) {
  %0 = graph.matmul %x, %w : (tensor<8x3xf32>, tensor<3x5xf32>) -> tensor<8x5xf32>
  %1 = graph.tanh %0 : tensor<8x5xf32>
  %2 = graph.reduce_sum %1 {dims = array<i64: 0, 1>} : (tensor<8x5xf32>) -> tensor<f32>
  %3 = graph.matmul %x, %1 {transpose_lhs} : (tensor<8x3xf32>, tensor<8x5xf32>) -> tensor<3x5xf32>
  %4 = graph.sub %w, %3 : tensor<3x5xf32>
  return %4, %2 : tensor<3x5xf32>, tensor<f32>
}

// -----

// The number of labels that count is needed by every microbatch: it is computed from the whole batch.
// CHECK-LABEL: func.func @train
// CHECK: %[[ALL:.*]] = graph.reshape %arg1 : (tensor<4x2xi64>) -> tensor<8xi64>
// CHECK: %[[COUNT:.*]] = graph.reduce_sum %{{.*}} {dims = array<i64: 0>} : (tensor<8xf32>) -> tensor<f32>
// CHECK: graph.broadcast %[[COUNT]] {{.*}} -> tensor<2xf32>
// CHECK: graph.accumulate
func.func @train(%w: tensor<2xf32> {graph.state = {name = "w", role = "parameter"}}, %t: tensor<8xi64> {graph.input = "label"})
    -> (tensor<f32> {graph.result = {kind = "loss"}}) {
  %0 = graph.cast %t : (tensor<8xi64>) -> tensor<8xf32>
  %1 = graph.reduce_sum %0 {dims = array<i64: 0>} : (tensor<8xf32>) -> tensor<f32>
  %2 = graph.gather %w, %t {dim = 0 : i64} : (tensor<2xf32>, tensor<8xi64>) -> tensor<8xf32>
  %3 = graph.broadcast %1 {dims = array<i64>} : (tensor<f32>) -> tensor<8xf32>
  %4 = graph.div %2, %3 : tensor<8xf32>
  %5 = graph.tanh %4 : tensor<8xf32>
  %6 = graph.reduce_sum %5 {dims = array<i64: 0>} : (tensor<8xf32>) -> tensor<f32>
  return %6 : tensor<f32>
}

// -----

// So is the sum of the classes' weights, a vector that does not train.
// CHECK-LABEL: func.func @train
// CHECK: %[[ALL:.*]] = graph.reshape %arg1 : (tensor<4x2xi64>) -> tensor<8xi64>
// CHECK: %[[EACH:.*]] = graph.gather %arg0, %[[ALL]] {dim = 0 : i64} : (tensor<3xf32>, tensor<8xi64>) -> tensor<8xf32>
// CHECK: %[[SUM:.*]] = graph.reduce_sum %[[EACH]] {dims = array<i64: 0>} : (tensor<8xf32>) -> tensor<f32>
// CHECK: graph.broadcast %[[SUM]] {{.*}} -> tensor<2xf32>
func.func @train(%classes: tensor<3xf32> {graph.state = {name = "classes", role = "parameter", trainable = false}}, %t: tensor<8xi64> {graph.input = "label"})
    -> (tensor<f32> {graph.result = {kind = "loss"}}) {
  %0 = graph.gather %classes, %t {dim = 0 : i64} : (tensor<3xf32>, tensor<8xi64>) -> tensor<8xf32>
  %1 = graph.reduce_sum %0 {dims = array<i64: 0>} : (tensor<8xf32>) -> tensor<f32>
  %2 = graph.broadcast %1 {dims = array<i64>} : (tensor<f32>) -> tensor<8xf32>
  %3 = graph.div %0, %2 : tensor<8xf32>
  %4 = graph.tanh %3 : tensor<8xf32>
  %5 = graph.reduce_sum %4 {dims = array<i64: 0>} : (tensor<8xf32>) -> tensor<f32>
  return %5 : tensor<f32>
}

// -----

// Gradients of 16 bits are summed in 32.
// CHECK-LABEL: func.func @train
// CHECK: %[[G:.*]] = graph.matmul %{{.*}} {transpose_lhs} : {{.*}} -> tensor<3x5xbf16>
// CHECK: %[[WIDE:.*]] = graph.cast %[[G]] : (tensor<3x5xbf16>) -> tensor<3x5xf32>
// CHECK: %[[SUM:.*]] = graph.accumulate %[[WIDE]] : {{.*}}tensor<3x5xf32>
// CHECK: graph.sub %arg0, %[[SUM]]
func.func @train(%w: tensor<3x5xf32> {graph.state = {name = "w", role = "parameter"}}, %x: tensor<8x3xbf16> {graph.input = "x"})
    -> (tensor<3x5xf32> {graph.renews = "w"}, tensor<f32> {graph.result = {kind = "loss"}}) {
  %small = graph.cast %w : (tensor<3x5xf32>) -> tensor<3x5xbf16>
  %0 = graph.matmul %x, %small : (tensor<8x3xbf16>, tensor<3x5xbf16>) -> tensor<8x5xbf16>
  %1 = graph.tanh %0 : tensor<8x5xbf16>
  %wide = graph.cast %1 : (tensor<8x5xbf16>) -> tensor<8x5xf32>
  %2 = graph.reduce_sum %wide {dims = array<i64: 0, 1>} : (tensor<8x5xf32>) -> tensor<f32>
  %3 = graph.matmul %x, %1 {transpose_lhs} : (tensor<8x3xbf16>, tensor<8x5xbf16>) -> tensor<3x5xbf16>
  %4 = graph.cast %3 : (tensor<3x5xbf16>) -> tensor<3x5xf32>
  %5 = graph.sub %w, %4 : tensor<3x5xf32>
  return %5, %2 : tensor<3x5xf32>, tensor<f32>
}

// -----

// How far an index is from the middle of its range: the largest of all microbatches.
// CHECK-LABEL: func.func @train
// CHECK: %[[LARGEST:.*]] = graph.reduce_max %{{.*}} {dims = array<i64: 0>} : (tensor<2xi64>) -> tensor<i64>
// CHECK: %[[ALL:.*]] = graph.accumulate %[[LARGEST]] {combine = #graph<combine max>} : (tensor<i64>) -> tensor<i64>
// CHECK: return %{{.*}}, %[[ALL]]
func.func @train(%w: tensor<3xf32> {graph.state = {name = "w", role = "parameter"}}, %i: tensor<8xi64> {graph.input = "i"})
    -> (tensor<f32> {graph.result = {kind = "loss"}}, tensor<i64> {graph.result = {kind = "index", name = "look", range = [-3, 3]}}) {
  %0 = graph.gather %w, %i {dim = 0 : i64} : (tensor<3xf32>, tensor<8xi64>) -> tensor<8xf32>
  %1 = graph.reduce_sum %0 {dims = array<i64: 0>} : (tensor<8xf32>) -> tensor<f32>
  %2 = graph.abs %i : tensor<8xi64>
  %3 = graph.reduce_max %2 {dims = array<i64: 0>} : (tensor<8xi64>) -> tensor<i64>
  return %1, %3 : tensor<f32>, tensor<i64>
}

// -----

// Two readers of one constant: that of the batch's rows has a part of it, that of the weight all.
// CHECK-LABEL: func.func @train
// CHECK-DAG: graph.constant dense<0.000000e+00> : tensor<2x3xf32>
// CHECK-DAG: graph.constant dense<0.000000e+00> : tensor<8x3xf32>
// CHECK-NOT: all_gather
func.func @train(%w: tensor<8x3xf32> {graph.state = {name = "w", role = "parameter"}}, %x: tensor<8x3xf32> {graph.input = "x"})
    -> (tensor<f32> {graph.result = {kind = "loss"}}, tensor<8x3xf32> {graph.renews = "w"}) {
  %zero = graph.constant dense<0.0> : tensor<8x3xf32>
  %0 = graph.max %x, %zero : tensor<8x3xf32>
  %1 = graph.reduce_sum %0 {dims = array<i64: 0, 1>} : (tensor<8x3xf32>) -> tensor<f32>
  %2 = graph.max %w, %zero : tensor<8x3xf32>
  return %1, %2 : tensor<f32>, tensor<8x3xf32>
}
