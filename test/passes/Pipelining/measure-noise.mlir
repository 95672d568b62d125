// RUN: divisi-opt %s --measure-noise --split-input-file | FileCheck %s

// Of replicas: twice what this one adds to the gradient is its share's gradient. Sums of shards of the gradient stay.
// CHECK-LABEL: func.func @train
// CHECK-SAME: tensor<f32> {graph.result = {kind = "grad_sq_small", shares = 2 : i64}}
// CHECK: %[[P:.*]] = graph.reduce_sum %arg0
// CHECK: %[[G:.*]] = dist.all_reduce sum over ["data"] %[[P]]
// CHECK: %[[TWO:.*]] = graph.constant dense<2.000000e+00> : tensor<4xf32>
// CHECK: %[[OWN:.*]] = graph.mul %[[P]], %[[TWO]]
// CHECK: %[[SQUARES:.*]] = graph.mul %[[OWN]], %[[OWN]]
// CHECK: %[[SUM:.*]] = graph.reduce_sum %[[SQUARES]]
// CHECK: %[[SHARDS:.*]] = dist.all_reduce sum over ["model"] %[[SUM]]
// CHECK: %[[SHARES:.*]] = dist.all_reduce sum over ["data"] %[[SHARDS]]
// CHECK: %[[HALF:.*]] = graph.constant dense<5.000000e-01> : tensor<f32>
// CHECK: %[[SMALL:.*]] = graph.mul %[[SHARES]], %[[HALF]]
// CHECK: return %{{.*}}, %[[SMALL]]
func.func @train(%x: tensor<8x4xf32> {graph.input = "x"}, %w: tensor<4xf32> {graph.state = {name = "w", role = "parameter"}})
    -> (tensor<f32> {graph.result = {kind = "grad_sq_big"}}) attributes {dist.partitioned = #dist.mesh<"data" = 2, "model" = 2>} {
  %p = graph.reduce_sum %x {dims = array<i64: 0>} : (tensor<8x4xf32>) -> tensor<4xf32>
  %g = dist.all_reduce sum over ["data"] %p : (tensor<4xf32>) -> tensor<4xf32>
  %s = graph.mul %g, %g : tensor<4xf32>
  %q = graph.reduce_sum %s {dims = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  %big = dist.all_reduce sum over ["model"] %q : (tensor<f32>) -> tensor<f32>
  return %big : tensor<f32>
}

// -----

// A gradient that is scattered over the replicas is whole before that, and a term that is the same for all shares stays what it is.
// CHECK-LABEL: func.func @train
// CHECK: %[[P:.*]] = graph.reduce_sum %arg0
// CHECK: %[[OWN:.*]] = graph.mul %[[P]], %{{.*}} : tensor<4xf32>
// CHECK: %[[SQUARES:.*]] = graph.mul %[[OWN]], %[[OWN]] : tensor<4xf32>
// CHECK: %[[SUM:.*]] = graph.reduce_sum %[[SQUARES]] {dims = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
// CHECK: %[[OWN2:.*]] = graph.mul %[[P]], %{{.*}} : tensor<4xf32>
// CHECK: %[[PENALIZED:.*]] = graph.add %[[OWN2]], %arg1
// CHECK: %[[SQUARES2:.*]] = graph.mul %[[PENALIZED]], %[[PENALIZED]]
// CHECK: %[[SUM2:.*]] = graph.reduce_sum %[[SQUARES2]]
// CHECK: %[[BOTH:.*]] = graph.add %[[SUM]], %[[SUM2]]
// CHECK: dist.all_reduce sum over ["data"] %[[BOTH]]
func.func @train(%x: tensor<8x4xf32> {graph.input = "x"}, %w: tensor<4xf32> {graph.state = {name = "w", role = "parameter"}})
    -> (tensor<f32> {graph.result = {kind = "grad_sq_big"}}) attributes {dist.partitioned = #dist.mesh<"data" = 2>} {
  %p = graph.reduce_sum %x {dims = array<i64: 0>} : (tensor<8x4xf32>) -> tensor<4xf32>
  %g = dist.reduce_scatter sum dim 0 over ["data"] %p : tensor<4xf32> -> tensor<2xf32>
  %s = graph.mul %g, %g : tensor<2xf32>
  %q = graph.reduce_sum %s {dims = array<i64: 0>} : (tensor<2xf32>) -> tensor<f32>
  %big = dist.all_reduce sum over ["data"] %q : (tensor<f32>) -> tensor<f32>
  %g2 = dist.all_reduce sum over ["data"] %p : (tensor<4xf32>) -> tensor<4xf32>
  %h = graph.add %g2, %w : tensor<4xf32>
  %t = graph.mul %h, %h : tensor<4xf32>
  %r = graph.reduce_sum %t {dims = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  %sum = graph.add %big, %r : tensor<f32>
  return %sum : tensor<f32>
}

// -----

// Of microbatches, each parameter's squares are summed by themselves. Nothing is added twice.
// CHECK-LABEL: func.func @train
// CHECK: %[[P:.*]] = graph.gather
// CHECK: %[[OWN:.*]] = graph.mul %[[P]], %{{.*}} : tensor<1x4xf32>
// CHECK: %[[SQUARES:.*]] = graph.mul %[[OWN]], %[[OWN]]
// CHECK: %[[SUM:.*]] = graph.reduce_sum %[[SQUARES]]
// CHECK: %[[ALL:.*]] = graph.accumulate %[[SUM]]
// CHECK: %[[QUARTER:.*]] = graph.constant dense<2.500000e-01>
// CHECK: graph.mul %[[ALL]], %[[QUARTER]]
func.func @train(%x: tensor<4x4xf32> {graph.input = "x", graph.microbatches = 4 : i64}, %m: tensor<i64> {graph.scalar = "microbatch"})
    -> (tensor<f32> {graph.result = {kind = "grad_sq_big"}}) attributes {graph.microbatches = 4 : i64} {
  %i = graph.reshape %m : (tensor<i64>) -> tensor<1xi64>
  %p = graph.gather %x, %i {dim = 0 : i64} : (tensor<4x4xf32>, tensor<1xi64>) -> tensor<1x4xf32>
  %g = graph.accumulate %p : (tensor<1x4xf32>) -> tensor<1x4xf32>
  %s = graph.mul %g, %g : tensor<1x4xf32>
  %big = graph.reduce_sum %s {dims = array<i64: 0, 1>} : (tensor<1x4xf32>) -> tensor<f32>
  return %big : tensor<f32>
}

// -----

// Without the report, and with both, nothing changes.
// CHECK-LABEL: func.func @train
// CHECK-NEXT: return %arg0, %arg0
func.func @train(%x: tensor<f32> {graph.input = "x"})
    -> (tensor<f32> {graph.result = {kind = "grad_sq_big"}}, tensor<f32> {graph.result = {kind = "grad_sq_small", shares = 2 : i64}}) {
  return %x, %x : tensor<f32>, tensor<f32>
}
