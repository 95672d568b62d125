// RUN: divisi-opt %s --measure-noise --split-input-file --verify-diagnostics

// expected-error @+1 {{compares the gradients of parts of the batch with that of the whole batch, and here there is one part}}
func.func @train(%x: tensor<f32> {graph.input = "x"}) -> (tensor<f32> {graph.result = {kind = "grad_sq_big"}})
    attributes {dist.partitioned = #dist.mesh<"model" = 2>} {
  return %x : tensor<f32>
}

// -----

// Activations that were gathered over the replicas.
func.func @train(%x: tensor<4xf32> {graph.input = "x"}) -> (tensor<f32> {graph.result = {kind = "grad_sq_big"}})
    attributes {dist.partitioned = #dist.mesh<"data" = 2>} {
  %y = dist.all_gather %x dim 0 over ["data"] : tensor<4xf32> -> tensor<8xf32>
  // expected-error @+1 {{needs the gradient of each share of the batch, and here one is made from the whole batch at once}}
  %g = graph.tanh %y : tensor<8xf32>
  %s = graph.mul %g, %g : tensor<8xf32>
  %big = graph.reduce_sum %s {dims = array<i64: 0>} : (tensor<8xf32>) -> tensor<f32>
  return %big : tensor<f32>
}

// -----

// A share of the sum itself, after the sum.
func.func @train(%x: tensor<4xf32> {graph.input = "x"}, %i: tensor<2xi64> {graph.scalar = "axis_index.data"}) -> (tensor<f32> {graph.result = {kind = "grad_sq_big"}})
    attributes {dist.partitioned = #dist.mesh<"data" = 2>} {
  %g = dist.all_reduce sum over ["data"] %x : (tensor<4xf32>) -> tensor<4xf32>
  // expected-error @+1 {{one is made from the whole batch at once}}
  %h = graph.gather %g, %i {dim = 0 : i64} : (tensor<4xf32>, tensor<2xi64>) -> tensor<2xf32>
  %s = graph.mul %h, %h : tensor<2xf32>
  %q = graph.reduce_sum %s {dims = array<i64: 0>} : (tensor<2xf32>) -> tensor<f32>
  %big = dist.all_reduce sum over ["data"] %q : (tensor<f32>) -> tensor<f32>
  return %big : tensor<f32>
}

// -----

module attributes {dist.sync = {every = 2 : i64, mode = "local"}} {
  // expected-error @+1 {{with --sync local each replica has that of its share alone: take --sync all-reduce}}
  func.func @train(%x: tensor<f32> {graph.input = "x"}) -> (tensor<f32> {graph.result = {kind = "grad_sq_big"}})
      attributes {dist.partitioned = #dist.mesh<"data" = 2>} {
    return %x : tensor<f32>
  }
}

// -----

module attributes {dist.sync = {mode = "server", servers = 2 : i64}} {
  // expected-error @+1 {{the servers of --sync server --servers N get their sums alone: take --servers colocated}}
  func.func @train(%x: tensor<f32> {graph.input = "x"}) -> (tensor<f32> {graph.result = {kind = "grad_sq_big"}})
      attributes {dist.partitioned = #dist.mesh<"data" = 2>} {
    return %x : tensor<f32>
  }
}

// -----

// expected-error @+1 {{take a --schedule that is not asynchronous}}
func.func @train(%x: tensor<f32> {graph.input = "x"}) -> (tensor<f32> {graph.result = {kind = "grad_sq_big"}})
    attributes {graph.microbatches = 1 : i64, graph.asynchronous} {
  return %x : tensor<f32>
}
