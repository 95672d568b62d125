// RUN: divisi-opt %s --split-input-file --verify-diagnostics

func.func @arguments(%x: tensor<4xf32>) {
  // expected-error @+1 {{expected block arguments of the inputs' types}}
  %0 = exec.kernel rows 1 (%x) : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<5xf32>):
    %1 = graph.constant dense<0.0> : tensor<4xf32>
    exec.yield %1 : tensor<4xf32>
  }
  return
}

// -----

func.func @results(%x: tensor<4xf32>) {
  // expected-error @+1 {{expected exec.yield of the outputs' types}}
  %0 = exec.kernel rows 1 (%x) : (tensor<4xf32>) -> tensor<5xf32> {
  ^bb0(%a: tensor<4xf32>):
    exec.yield %a : tensor<4xf32>
  }
  return
}

// -----

func.func @rows(%x: tensor<4xf32>) {
  // expected-error @+1 {{expected at least one row}}
  %0 = exec.kernel rows 0 (%x) : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    %1 = graph.tanh %a {exec.stage} : tensor<4xf32>
    exec.yield %1 : tensor<4xf32>
  }
  return
}

// -----

func.func @stages(%x: tensor<4xf32>) {
  // expected-error @+1 {{expected exec.yield of values of operations with 'exec.stage'}}
  %0 = exec.kernel rows 1 (%x) : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    %1 = graph.tanh %a : tensor<4xf32>
    exec.yield %1 : tensor<4xf32>
  }
  return
}

// -----

// A kernel may only use its inputs.
func.func @isolated(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  // expected-note @+1 {{required by region isolation constraints}}
  %0 = exec.kernel rows 1 (%x) : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    // expected-error @+1 {{using value defined outside the region}}
    %1 = graph.add %a, %y {exec.stage} : tensor<4xf32>
    exec.yield %1 : tensor<4xf32>
  }
  return
}

// -----

func.func @yield(%x: tensor<4xf32>) {
  // expected-error @+1 {{expects parent op to be one of 'exec.kernel, exec.call'}}
  exec.yield %x : tensor<4xf32>
}

// -----

func.func @offsets(%x: tensor<4xf32>) {
  // expected-error @+1 {{expected 'offsets' with a place for each of 1 results, got 2}}
  %0 = exec.copy %x {offsets = array<i64: 0, 64>} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @copy(%x: tensor<4xf32>) {
  // expected-error @+1 {{expected a result of the operand's type}}
  %0 = exec.copy %x : (tensor<4xf32>) -> tensor<5xf32>
  return
}

// -----

// A call must fit its operation: sizes, types, attributes.
func.func @product(%a: tensor<4x6xf32>, %b: tensor<7x5xf32>) {
  // expected-error @+2 {{matmul contracts dimensions of different size}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = exec.call graph.matmul (%a, %b) : (tensor<4x6xf32>, tensor<7x5xf32>) -> tensor<4x5xf32>
  return
}

// -----

func.func @product(%a: tensor<4x6xf32>, %b: tensor<6x5xf32>) {
  // expected-error @+1 {{'graph.matmul' op}}
  %0 = exec.call graph.matmul (%a, %b) : (tensor<4x6xf32>, tensor<6x5xf32>) -> tensor<4x6xf32>
  return
}

// -----

func.func @attributes(%a: tensor<4x6xf32>, %b: tensor<6x5xf32>) {
  // expected-error @+1 {{'graph.matmul': attribute 'transpose_lhs' failed to satisfy constraint: unit attribute}}
  %0 = exec.call graph.matmul {transpose_lhs = 3 : i64} (%a, %b) : (tensor<4x6xf32>, tensor<6x5xf32>) -> tensor<4x5xf32>
  return
}

// -----

func.func @convolution(%x: tensor<2x4x9x9xf32>, %w: tensor<6x2x3x3xf32>) {
  // expected-error @+1 {{output size 10 in spatial dimension 0 should be 9}}
  %0 = exec.call graph.conv {dilations = array<i64: 1, 1>, groups = 2 : i64, pads_high = array<i64: 1, 1>, pads_low = array<i64: 1, 1>, strides = array<i64: 1, 1>} (%x, %w)
    : (tensor<2x4x9x9xf32>, tensor<6x2x3x3xf32>) -> tensor<2x6x10x9xf32>
  return
}

// -----

// Sizes whose sum overflows 64 bits.
func.func @convolution(%x: tensor<2x4x9x9xf32>, %w: tensor<6x2x3x3xf32>) {
  // expected-error @+1 {{must not be larger than 2^30, got 9223372036854775807}}
  %0 = exec.call graph.conv {dilations = array<i64: 1, 1>, groups = 2 : i64, pads_high = array<i64: 9223372036854775807, 1>, pads_low = array<i64: 1, 1>, strides = array<i64: 1, 1>} (%x, %w)
    : (tensor<2x4x9x9xf32>, tensor<6x2x3x3xf32>) -> tensor<2x6x9x9xf32>
  return
}

// -----

func.func @attention(%h: tensor<2x4x2x8xbf16>) {
  // expected-error @+1 {{expected stats in f32}}
  %0:2 = exec.call graph.attention {causal, scale = 1.0 : f64} (%h, %h, %h)
    : (tensor<2x4x2x8xbf16>, tensor<2x4x2x8xbf16>, tensor<2x4x2x8xbf16>) -> (tensor<2x4x2x8xbf16>, tensor<2x2x5xf32>)
  return
}

// -----

func.func @top_k(%a: tensor<4x6xf32>) {
  // expected-error @+2 {{k = 7 is larger than dimension 1}}
  // expected-error @+1 {{failed to infer returned types}}
  %0:2 = exec.call graph.top_k {dim = 1 : i64, k = 7 : i64} (%a) : (tensor<4x6xf32>) -> (tensor<4x7xf32>, tensor<4x7xi64>)
  return
}

// -----

#mesh = #dist.mesh<"data" = 2, "model" = 2>
func.func @collective(%n: tensor<8xf32>) attributes {dist.partitioned = #mesh} {
  // expected-error @+1 {{expected a result of shape 'tensor<32xf32>', got 'tensor<16xf32>'}}
  %0 = exec.call dist.all_gather {axes = ["data", "model"], dim = 0 : i64} (%n) {id = 0 : i64} : (tensor<8xf32>) -> tensor<16xf32>
  return
}

// -----

func.func @outside(%n: tensor<8xf32>) {
  // expected-error @+1 {{is not in a partitioned function}}
  %0 = exec.call dist.permute {axes = ["data"], shift = 1 : i64} (%n) {id = 0 : i64} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @unknown(%n: tensor<8xf32>) {
  // expected-error @+1 {{unknown operation 'system.call'}}
  %0 = exec.call system.call (%n) : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @foreign(%n: tensor<8xf32>) {
  // expected-error @+1 {{expected one operation of graph or dist}}
  %0 = exec.call exec.copy (%n) : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @number(%n: tensor<8xf32>) {
  // expected-error @+1 {{has the id 2, but its message has 3}}
  exec.call dist.send {id = 3 : i64, stage = 1 : i64} (%n) {id = 2 : i64} : (tensor<8xf32>) -> ()
  return
}

// -----

func.func @number(%a: tensor<4x4xf32>) {
  // expected-error @+1 {{has an id, but is no collective or message}}
  %0 = exec.call graph.matmul (%a, %a) {id = 2 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return
}

// -----

func.func @workspace(%a: tensor<4x4xf32>) {
  // expected-error @+1 {{expected a workspace of one dimension of i8, got 'tensor<4xf32>'}}
  %0:2 = exec.call graph.matmul (%a, %a) workspace : (tensor<4x4xf32>, tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>)
  return
}
