// RUN: divisi-opt %s --split-input-file --verify-diagnostics

// What an operation checks of its own attributes and shapes is told before its sharding rule reads them.
!x = tensor<8x16xf32, #dist.shard<"data", _>>
func.func @permutation(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2>} {
  // expected-error @+1 {{constraint 1: permutation must name each of 2 dimensions once}}
  %y = graph.transpose %x {permutation = array<i64: 1, 9>} : (!x) -> !x
  return
}

// -----

!x = tensor<8x16xf32, #dist.shard<"data", _>>
func.func @running(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2>} {
  // expected-error @+1 {{constraint 1: dim 2147483647 is out of range}}
  %y = graph.cumsum %x {dim = 2147483647} : (!x) -> !x
  return
}

// -----

!x = tensor<8x16xf32, #dist.shard<"data", _>>
!i = tensor<4xi64>
func.func @rows(%x: !x, %i: !i) attributes {dist.mesh = #dist.mesh<"data" = 2>} {
  // expected-error @+1 {{constraint 1: dim 2147483647 is out of range}}
  %y = graph.gather %x, %i {dim = 2147483647} : (!x, !i) -> !x
  return
}

// -----

!x = tensor<8x16xf32, #dist.shard<"data", _>>
!y = tensor<16xf32>
func.func @reduced(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2>} {
  // expected-error @+1 {{constraint 1: reduced dimension -9223372036854775808 is out of range}}
  %y = graph.reduce_sum %x {dims = array<i64: -9223372036854775808>} : (!x) -> !y
  return
}

// -----

!x = tensor<16xf32, #dist.shard<"data">>
func.func @product(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2>} {
  // expected-error @+1 {{constraint 1: matmul expects two operands}}
  %y = graph.matmul %x, %x : (!x, !x) -> !x
  return
}

// -----

!x = tensor<8x16xf32, #dist.shard<"data", _>>
func.func @spread(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2>} {
  // expected-error @+1 {{constraint 2: dims must be increasing}}
  %y = graph.broadcast %x {dims = array<i64: 5, 6>} : (!x) -> !x
  return
}

// -----

!x = tensor<8x16xf32, #dist.shard<"data", _>>
func.func @joined(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2>} {
  // expected-error @+1 {{constraint 2: concat dim 7 is out of range}}
  %y = graph.concat %x, %x {dim = 7} : (!x, !x) -> !x
  return
}

// -----

!x = tensor<8x16xf32, #dist.shard<"data", _>>
func.func @softmax(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2>} {
  // expected-error @+1 {{constraint 1: dim 7 is out of range}}
  %y = graph.softmax %x {dim = 7} : (!x) -> !x
  return
}

// -----

!x = tensor<8x16xf32, #dist.shard<"data", _>>
!y = tensor<8x8xf32, #dist.shard<"data", _>>
func.func @piece(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2>} {
  // expected-error @+1 {{constraint 1: expected attributes and shapes of one rank}}
  %y = graph.slice %x {starts = array<i64: 0>, steps = array<i64: 1>} : (!x) -> !y
  return
}

// -----

!x = tensor<8x16xf32, #dist.shard<"data", _>>
!l = tensor<f32>
func.func @norm(%x: !x, %l: !l) attributes {dist.mesh = #dist.mesh<"data" = 2>} {
  // expected-error @+1 {{constraint 1: dim 9 is out of range}}
  %y = graph.layer_norm %x, %l, %l {dim = 9, epsilon = 1.0e-5 : f64} : (!x, !l, !l) -> !x
  return
}
