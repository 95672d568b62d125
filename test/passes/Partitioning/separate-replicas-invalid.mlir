// RUN: divisi-opt %s --separate-replicas --split-input-file --verify-diagnostics

module attributes {dist.sync = {every = 2 : i64, mode = "local"}} {
  func.func @train(%x: tensor<8x4xf32> {dist.global = tensor<16x4xf32, #dist.shard<"data", _>>, graph.input = "x"}) -> tensor<16x4xf32>
      attributes {dist.partitioned = #dist.mesh<"data" = 2>} {
    // expected-error @+2 {{--sync local keeps replicas apart, but the model, or a --pin, needs the whole batch at once here}}
    %y = graph.neg %x : tensor<8x4xf32>
    %a = dist.all_gather %y dim 0 over ["data"] : tensor<8x4xf32> -> tensor<16x4xf32>
    return %a : tensor<16x4xf32>
  }
}

// -----

module attributes {dist.sync = {every = 2 : i64, mode = "local"}} {
  // expected-error @+1 {{--sync local gives every replica a state of its own, but the plan splits "w" over 'data'}}
  func.func @train(%w: tensor<4xf32> {dist.global = tensor<8xf32, #dist.shard<"data">>, graph.state = {name = "w", role = "parameter"}})
      attributes {dist.partitioned = #dist.mesh<"data" = 2>} {
    return
  }
}

// -----

module attributes {dist.sync = {every = 2 : i64, mode = "local"}} {
  // expected-error @+1 {{--sync local: the plan splits no input over the axis 'data'}}
  func.func @train(%x: tensor<8x4xf32> {graph.input = "x"}) attributes {dist.partitioned = #dist.mesh<"data" = 2>} {
    return
  }
}

// -----

module attributes {dist.sync = {every = 2 : i64, mode = "local"}} {
  // expected-error @+1 {{--sync local needs an axis 'data' in the mesh}}
  func.func @train(%x: tensor<8x4xf32>) attributes {dist.partitioned = #dist.mesh<"model" = 2>} {
    return
  }
}

// -----

module attributes {dist.sync = {every = 2 : i64, mode = "local"}} {
  // expected-error @+1 {{--sync local averages parameters of 32 and 64 bits, but "w" has the type 'f16'}}
  func.func @train(%w: tensor<4xf16> {graph.state = {name = "w", role = "parameter"}}) attributes {dist.partitioned = #dist.mesh<"data" = 2>} {
    return
  }
}

// -----

// expected-error @+1 {{'sync': replicas are averaged every 1 to 1000000 steps (--average-every), not every 0}}
module attributes {dist.sync = {every = 0 : i64, mode = "local"}} {
  func.func @train() {
    return
  }
}

// -----

// expected-error @+1 {{'sync': there is no 'often' with such a value}}
module attributes {dist.sync = {every = 2 : i64, mode = "local", often = true}} {
  func.func @train() {
    return
  }
}

// -----

// expected-error @+1 {{'sync': expected {mode = "local"}}
module attributes {dist.sync = "local"} {
  func.func @train() {
    return
  }
}
