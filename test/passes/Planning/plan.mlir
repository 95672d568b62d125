// RUN: divisi-opt %s --plan=mesh=data=2,model=2 --split-input-file | FileCheck %s
// RUN: divisi-opt %s --plan=mesh=data=2 --split-input-file | FileCheck %s --check-prefix=DATA
// RUN: divisi-opt %s --plan=mesh=pipeline=2 --split-input-file | FileCheck %s --check-prefix=NONE

// An axis that no strategy uses shards nothing.
// NONE-NOT: dist.shard
// NONE: dist.mesh = #dist.mesh<"pipeline" = 2>
// NONE-NOT: dist.reshard

// The batch is sharded, the weight by columns; gradients are summed over the batch; the loss is replicated.
// CHECK-LABEL: func.func @train
// CHECK-SAME: (%arg0: tensor<16x8xf32, #model-_> {graph.state = {name = "w"
// CHECK-SAME: %arg1: tensor<4x8xf32, #data-_> {graph.input = "x"}, %arg2: tensor<f32> {graph.scalar = "lr"})
// CHECK-SAME: -> (tensor<16x8xf32, #model-_> {graph.renews = "w"}, tensor<f32> {graph.result = {kind = "loss"}})
// CHECK-SAME: dist.mesh = #dist.mesh<"data" = 2, "model" = 2>
// CHECK: %[[Y:.*]] = graph.matmul %arg1, %arg0 {{.*}} -> tensor<4x16xf32, #data-model>
// CHECK: %[[L:.*]] = graph.reduce_sum %[[Y]] {{.*}} -> tensor<f32, #sum-data$model>
// CHECK: dist.reshard %[[L]] : tensor<f32, #sum-data$model> -> tensor<f32>
// CHECK: %[[G:.*]] = graph.matmul %[[Y]], %arg1 {transpose_lhs} {{.*}} -> tensor<16x8xf32, #model-_-sum-data>
// CHECK: %[[S:.*]] = dist.reshard %[[G]] : tensor<16x8xf32, #model-_-sum-data> -> tensor<16x8xf32, #model-_>
// CHECK: graph.mul %{{.*}}, %[[S]] : tensor<16x8xf32, #model-_>
// CHECK-LABEL: func.func @evaluate
// CHECK-SAME: (%arg0: tensor<16x8xf32, #model-_>

// DATA-LABEL: func.func @train
// DATA-SAME: %arg0: tensor<16x8xf32> {{.*}} %arg1: tensor<4x8xf32, #data-_>
// DATA: %[[G:.*]] = graph.matmul %{{.*}}, %arg1 {transpose_lhs} {{.*}} -> tensor<16x8xf32, #_-_-sum-data>
// DATA: dist.reshard %[[G]] : tensor<16x8xf32, #_-_-sum-data> -> tensor<16x8xf32>
func.func @train(%w: tensor<16x8xf32> {graph.state = {name = "w", role = "parameter", trainable = true}},
    %x: tensor<4x8xf32> {graph.input = "x"}, %lr: tensor<f32> {graph.scalar = "lr"})
    -> (tensor<16x8xf32> {graph.renews = "w"}, tensor<f32> {graph.result = {kind = "loss"}}) {
  %y = graph.matmul %x, %w {transpose_rhs} : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %l = graph.reduce_sum %y {dims = array<i64: 0, 1>} : (tensor<4x16xf32>) -> tensor<f32>
  %g = graph.matmul %y, %x {transpose_lhs} : (tensor<4x16xf32>, tensor<4x8xf32>) -> tensor<16x8xf32>
  %r = graph.broadcast %lr {dims = array<i64>} : (tensor<f32>) -> tensor<16x8xf32>
  %s = graph.mul %r, %g : tensor<16x8xf32>
  %n = graph.sub %w, %s : tensor<16x8xf32>
  return %n, %l : tensor<16x8xf32>, tensor<f32>
}
func.func @evaluate(%w: tensor<16x8xf32> {graph.state = {name = "w", role = "parameter", trainable = true}},
    %x: tensor<4x8xf32> {graph.input = "x"}) -> (tensor<4x16xf32> {graph.output = "y"}) {
  %y = graph.matmul %x, %w {transpose_rhs} : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  return %y : tensor<4x16xf32>
}

// -----

// Rows of a table, and an input without a batch.
// CHECK-LABEL: func.func @evaluate
// CHECK-SAME: %arg0: tensor<32x8xf32, #model-_>
// CHECK-SAME: %arg1: tensor<4x6xi64, #data-_> {graph.input = "tokens"}
// CHECK-SAME: %arg2: tensor<8xf32> {graph.input = "scale"}
// CHECK: %[[R:.*]] = graph.gather %arg0, %arg1 {{.*}} -> tensor<4x6x8xf32, #data-_-_-sum-model>
// CHECK: dist.reshard %[[R]] : {{.*}} -> tensor<4x6x8xf32, #data-_-_>
// CHECK: %[[M:.*]] = graph.mul
// CHECK: %[[W:.*]] = dist.reshard %[[M]] : tensor<4x6x8xf32, #data-_-_> -> tensor<4x6x8xf32>
// CHECK: return %[[W]]
func.func @evaluate(%t: tensor<32x8xf32> {graph.state = {name = "table", role = "parameter", trainable = true}},
    %i: tensor<4x6xi64> {graph.input = "tokens"}, %c: tensor<8xf32> {graph.input = "scale"})
    -> (tensor<4x6x8xf32> {graph.output = "y"}) {
  %r = graph.gather %t, %i {dim = 0 : i64} : (tensor<32x8xf32>, tensor<4x6xi64>) -> tensor<4x6x8xf32>
  %b = graph.broadcast %c {dims = array<i64: 2>} : (tensor<8xf32>) -> tensor<4x6x8xf32>
  %y = graph.mul %r, %b : tensor<4x6x8xf32>
  return %y : tensor<4x6x8xf32>
}

// -----

// Groups of channels are sharded before the channels of a group are.
// CHECK-LABEL: func.func @evaluate
// CHECK-SAME: %arg0: tensor<8x2x3x3xf32, #model-_-_-_>
// CHECK: graph.conv {{.*}} -> tensor<4x8x6x6xf32, #data-model-_-_>
func.func @evaluate(%f: tensor<8x2x3x3xf32> {graph.state = {name = "filter", role = "parameter", trainable = true}},
    %x: tensor<4x4x6x6xf32> {graph.input = "x"}) -> (tensor<4x8x6x6xf32> {graph.output = "y"}) {
  %y = graph.conv %x, %f {dilations = array<i64: 1, 1>, groups = 2 : i64, pads_high = array<i64: 1, 1>,
      pads_low = array<i64: 1, 1>, strides = array<i64: 1, 1>}
      : (tensor<4x4x6x6xf32>, tensor<8x2x3x3xf32>) -> tensor<4x8x6x6xf32>
  return %y : tensor<4x8x6x6xf32>
}

// -----

// A softmax over sharded classes is computed from the maxima and sums of the shards.
// CHECK-LABEL: func.func @evaluate
// CHECK: %[[M:.*]] = graph.reduce_max {{.*}} -> tensor<4xf32, #data-max-model>
// CHECK: dist.reshard %[[M]] : tensor<4xf32, #data-max-model> -> tensor<4xf32, #data>
// CHECK: graph.exp {{.*}} : tensor<4x16xf32, #data-model>
// CHECK: %[[S:.*]] = graph.reduce_sum {{.*}} -> tensor<4xf32, #data-sum-model>
// CHECK: dist.reshard %[[S]] : tensor<4xf32, #data-sum-model> -> tensor<4xf32>
func.func @evaluate(%w: tensor<16x8xf32> {graph.state = {name = "w", role = "parameter", trainable = true}},
    %x: tensor<4x8xf32> {graph.input = "x"}) -> (tensor<4xf32> {graph.output = "y"}) {
  %y = graph.matmul %x, %w {transpose_rhs} : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %m = graph.reduce_max %y {dims = array<i64: 1>} : (tensor<4x16xf32>) -> tensor<4xf32>
  %b = graph.broadcast %m {dims = array<i64: 0>} : (tensor<4xf32>) -> tensor<4x16xf32>
  %d = graph.sub %y, %b : tensor<4x16xf32>
  %e = graph.exp %d : tensor<4x16xf32>
  %s = graph.reduce_sum %e {dims = array<i64: 1>} : (tensor<4x16xf32>) -> tensor<4xf32>
  return %s : tensor<4xf32>
}

// -----

// Sums stay pending: two matmuls of one activation are added first and communicated once.
// CHECK-LABEL: func.func @evaluate
// CHECK: %[[A:.*]] = graph.matmul {{.*}} -> tensor<4x8xf32, #data-_-sum-model>
// CHECK: %[[B:.*]] = graph.matmul {{.*}} -> tensor<4x8xf32, #data-_-sum-model>
// CHECK: %[[C:.*]] = graph.add %[[A]], %[[B]] : tensor<4x8xf32, #data-_-sum-model>
// CHECK-NEXT: dist.reshard %[[C]]
// CHECK-NOT: dist.reshard {{.*}}sum-model
func.func @evaluate(%v: tensor<16x8xf32> {graph.state = {name = "v", role = "parameter", trainable = true}},
    %w: tensor<16x8xf32> {graph.state = {name = "w", role = "parameter", trainable = true}},
    %x: tensor<4x8xf32> {graph.input = "x"}) -> (tensor<4x8xf32> {graph.output = "y"}) {
  %h = graph.matmul %x, %v {transpose_rhs} : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %a = graph.matmul %h, %v : (tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
  %b = graph.matmul %h, %w : (tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
  %c = graph.add %a, %b : tensor<4x8xf32>
  return %c : tensor<4x8xf32>
}
