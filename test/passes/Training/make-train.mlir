// RUN: divisi-opt %s --make-train --canonicalize --split-input-file | FileCheck %s
// RUN: divisi-opt %s --make-train='momentum=0.9 weight-decay=0.01' --canonicalize --split-input-file | FileCheck %s --check-prefix=MOMENTUM
// RUN: divisi-opt %s --make-train='momentum=0.9 nesterov=true' --canonicalize --split-input-file | FileCheck %s --check-prefix=NESTEROV
// RUN: divisi-opt %s --make-train='optimizer=adam weight-decay=0.01' --canonicalize --split-input-file | FileCheck %s --check-prefix=ADAM
// RUN: divisi-opt %s --make-train='optimizer=adamw weight-decay=0.01' --canonicalize --split-input-file | FileCheck %s --check-prefix=ADAMW
// RUN: divisi-opt %s --make-train='optimizer=adamw describe-rules=true' --split-input-file | FileCheck %s --check-prefix=RULE
// RUN: divisi-opt %s --make-train='clip-norm=2' --canonicalize --split-input-file | FileCheck %s --check-prefix=CLIP
// RUN: divisi-opt %s --make-train='loss-scaling=true' --canonicalize --split-input-file | FileCheck %s --check-prefix=SCALE

// What predicts the weights of asynchronous pipelines reads the rule.
// RULE: moment = "exp_avg", name = "w.exp_avg", of = "w", role = "moment", rule = {beta1 = 9.000000e-01 : f64, {{.*}}decays = true, {{.*}}optimizer = "adamw"

// loss = sum((x w)^2): the gradient of w is x^T (2 x w), and plain SGD has no optimizer state.
// CHECK-NOT: @loss
// CHECK: func.func @train(
// CHECK-SAME: %arg0: tensor<6x8xf32> {graph.state = {name = "w", role = "parameter", trainable = true}}
// CHECK-SAME: %arg1: tensor<4x6xf32> {graph.input = "x"}
// CHECK-SAME: %arg2: tensor<i64> {graph.state = {name = "divisi.step", role = "step"}}
// CHECK-SAME: %arg3: tensor<i64> {graph.state = {name = "divisi.seed", role = "seed"}}
// CHECK-SAME: %arg4: tensor<f32> {graph.scalar = "learning_rate"})
// CHECK-SAME: -> (tensor<6x8xf32> {graph.renews = "w"}, tensor<i64> {graph.renews = "divisi.step"},
// CHECK-SAME: tensor<f32> {graph.result = {kind = "loss"}},
// CHECK-SAME: tensor<f32> {graph.result = {kind = "grad_norm", name = "w", when = {{[0-9]+}} : i64}})
// CHECK-DAG: %[[ONE:.*]] = graph.constant dense<1> : tensor<i64>
// CHECK: %[[H:.*]] = graph.matmul %arg1, %arg0
// CHECK: %[[LOSS:.*]] = graph.reduce_sum
// CHECK: %[[GH:.*]] = graph.add
// CHECK: %[[GW:.*]] = graph.matmul %arg1, %[[GH]] {transpose_lhs}
// CHECK: %[[SQUARES:.*]] = graph.mul %[[GW]], %[[GW]]
// CHECK: %[[SUM:.*]] = graph.reduce_sum %[[SQUARES]] {dims = array<i64: 0, 1>}
// CHECK: %[[NORM:.*]] = graph.sqrt %[[SUM]]
// CHECK: %[[STEP:.*]] = graph.add %arg2, %[[ONE]]
// CHECK: %[[RATE:.*]] = graph.broadcast %arg4
// CHECK: %[[CHANGE:.*]] = graph.mul %[[RATE]], %[[GW]]
// CHECK: %[[NEW:.*]] = graph.sub %arg0, %[[CHANGE]]
// CHECK: return %[[NEW]], %[[STEP]], %[[LOSS]], %[[NORM]]

// MOMENTUM: func.func @train(
// MOMENTUM-SAME: %arg5: tensor<6x8xf32> {graph.state = {moment = "momentum", name = "w.momentum", of = "w", role = "moment"}})
// MOMENTUM-SAME: {graph.renews = "w"}, tensor<6x8xf32> {graph.renews = "w.momentum"}
// MOMENTUM-DAG: %[[MU:.*]] = graph.constant dense<0.899999976> : tensor<6x8xf32>
// MOMENTUM-DAG: %[[DECAY:.*]] = graph.constant dense<0.00999999977> : tensor<6x8xf32>
// MOMENTUM: %[[GW:.*]] = graph.matmul %arg1, %{{.*}} {transpose_lhs}
// MOMENTUM: %[[L2:.*]] = graph.mul %arg0, %[[DECAY]]
// MOMENTUM: %[[G:.*]] = graph.add %[[GW]], %[[L2]]
// MOMENTUM: %[[OLD:.*]] = graph.mul %arg5, %[[MU]]
// MOMENTUM: %[[M:.*]] = graph.add %[[OLD]], %[[G]]
// MOMENTUM: %[[CHANGE:.*]] = graph.mul %{{.*}}, %[[M]]
// MOMENTUM: %[[NEW:.*]] = graph.sub %arg0, %[[CHANGE]]
// MOMENTUM: return %[[NEW]], %[[M]],

// NESTEROV: %[[M:.*]] = graph.add %{{.*}}, %[[GW:.*]] : tensor<6x8xf32>
// NESTEROV: %[[AHEAD:.*]] = graph.mul %[[M]],
// NESTEROV: graph.add %[[GW]], %[[AHEAD]]

// The gradient of the loss is the scaling factor; renewed state is selected by whether all gradients are finite.
// SCALE: name = "divisi.loss_scale_offset", role = "scaling"
// SCALE: %[[FINITE:.*]] = graph.compare eq
// SCALE: %[[ALL:.*]] = graph.broadcast %[[FINITE]]
// SCALE: %[[NEW:.*]] = graph.select %[[ALL]], %{{.*}}, %arg0
// SCALE: %[[NUMBER:.*]] = graph.select %[[FINITE]]
// SCALE: return %[[NEW]],

// Adam's L2 is part of the gradient, AdamW's decay shrinks the parameter; bias corrections are accurate in the first steps.
// ADAM: moment = "exp_avg", name = "w.exp_avg", of = "w", role = "moment"
// ADAM-SAME: moment = "exp_avg_sq", name = "w.exp_avg_sq", of = "w", role = "moment"
// ADAM: %[[GW:.*]] = graph.matmul %arg1, %{{.*}} {transpose_lhs}
// ADAM: graph.tanh %{{.*}} : tensor<f32>
// ADAM: %[[L2:.*]] = graph.mul %arg0,
// ADAM: graph.add %[[GW]], %[[L2]]

// ADAMW: %[[GW:.*]] = graph.matmul %arg1, %{{.*}} {transpose_lhs}
// ADAMW: %[[FACTOR:.*]] = graph.broadcast
// ADAMW-NEXT: %[[SHRUNK:.*]] = graph.mul %arg0, %[[FACTOR]]
// ADAMW: graph.mul %[[GW]],
// ADAMW: graph.sub %[[SHRUNK]],

// The reported norm is the one before clipping.
// CLIP: %[[GW:.*]] = graph.matmul %arg1, %{{.*}} {transpose_lhs}
// CLIP: %[[NORM:.*]] = graph.sqrt
// CLIP: %[[FACTOR:.*]] = graph.min
// CLIP: %[[EACH:.*]] = graph.broadcast %[[FACTOR]]
// CLIP: %[[CLIPPED:.*]] = graph.mul %[[GW]], %[[EACH]]
// CLIP: graph.mul %{{.*}}, %[[CLIPPED]]
// CLIP: return {{.*}}, %[[NORM]] :
func.func @loss(%w: tensor<6x8xf32> {graph.parameter = "w"}, %x: tensor<4x6xf32> {graph.input = "x"}) -> (tensor<f32> {graph.loss}) {
  %0 = graph.matmul %x, %w : (tensor<4x6xf32>, tensor<6x8xf32>) -> tensor<4x8xf32>
  %1 = graph.mul %0, %0 : tensor<4x8xf32>
  %2 = graph.reduce_sum %1 {dims = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32>
  return %2 : tensor<f32>
}

// -----

// Dropout draws with the step's seed and number, forward and backward alike; a frozen parameter has no gradient, no optimizer state
// and no result; buffers are renewed; accuracy is computed on demand.
// CHECK: func.func @train(
// CHECK-SAME: {graph.state = {name = "fixed", role = "parameter", trainable = false}}
// CHECK-SAME: -> (tensor<6x8xf32> {graph.renews = "w"}, tensor<8xf32> {graph.renews = "seen"}, tensor<i64> {graph.renews = "divisi.step"}
// CHECK-SAME: {graph.result = {kind = "correct", when = {{[0-9]+}} : i64}}
// CHECK-SAME: {graph.result = {kind = "count", when = {{[0-9]+}} : i64}}
// CHECK-SAME: {graph.result = {kind = "grad_norm", name = "w",
// CHECK-NOT: name = "fixed"
// CHECK: graph.dropout %{{.*}}, %[[SEED:arg[0-9]+]], %[[STEP:arg[0-9]+]] {ratio = 5.000000e-01 : f64, stream = 7 : i64}
// CHECK: graph.random_uniform %[[SEED]], %[[STEP]] {stream = 7 : i64}
func.func @loss(%w: tensor<6x8xf32> {graph.parameter = "w"}, %f: tensor<8xf32> {graph.parameter = "fixed", graph.frozen},
                %x: tensor<4x6xf32> {graph.input = "x"}, %l: tensor<4xi64> {graph.input = "l", graph.label},
                %old: tensor<8xf32> {graph.buffer = "seen"}) -> (tensor<f32> {graph.loss}, tensor<8xf32> {graph.renews = "seen"}) {
  %0 = graph.matmul %x, %w : (tensor<4x6xf32>, tensor<6x8xf32>) -> tensor<4x8xf32>
  %1 = graph.dropout %0 {ratio = 0.5 : f64, stream = 7 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = graph.broadcast %f {dims = array<i64: 1>} : (tensor<8xf32>) -> tensor<4x8xf32>
  %3 = graph.mul %1, %2 : tensor<4x8xf32>
  %4 = graph.cross_entropy %3, %l : (tensor<4x8xf32>, tensor<4xi64>) -> tensor<4xf32>
  %5 = graph.reduce_sum %4 {dims = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  %6 = graph.reduce_sum %0 {dims = array<i64: 0>} : (tensor<4x8xf32>) -> tensor<8xf32>
  %7 = graph.add %old, %6 : tensor<8xf32>
  return %5, %7 : tensor<f32>, tensor<8xf32>
}
