// RUN: divisi-opt %s --split-input-file --verify-diagnostics

// Not linear: the sum must come first.
!p = tensor<8x16xf32, #dist.shard<_, _, sum "model">>
func.func @relu_of_pending() attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  %p = graph.constant dense<0.0> : !p
  // expected-error @+2 {{'graph.relu' op is not linear, but operand #0 is a pending sum over "model"}}
  // expected-note @+1 {{reduce it first with a dist.reshard}}
  %y = graph.relu %p : !p
  return
}

// -----

!p = tensor<8x16xf32, #dist.shard<_, _, sum "model">>
func.func @exp_of_pending() attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  %p = graph.constant dense<0.0> : !p
  // expected-error @+2 {{'graph.exp' op is not linear, but operand #0 is a pending sum over "model"}}
  // expected-note @+1 {{reduce it first with a dist.reshard}}
  %y = graph.exp %p : !p
  return
}

// -----

!p = tensor<8x16xf32, #dist.shard<_, _, sum "model">>
func.func @abs_of_pending() attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  %p = graph.constant dense<0.0> : !p
  // expected-error @+2 {{'graph.abs' op is not linear, but operand #0 is a pending sum over "model"}}
  // expected-note @+1 {{reduce it first with a dist.reshard}}
  %y = graph.abs %p : !p
  return
}

// -----

!p = tensor<8x16xf32, #dist.shard<_, _, sum "model">>
func.func @softmax_of_pending() attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  %p = graph.constant dense<0.0> : !p
  // expected-error @+2 {{'graph.softmax' op is not linear, but operand #0 is a pending sum over "model"}}
  // expected-note @+1 {{reduce it first with a dist.reshard}}
  %y = graph.softmax %p {dim = 1 : i64} : (!p) -> !p
  return
}

// -----

!p = tensor<8x16xf32, #dist.shard<_, _, sum "model">>
func.func @mul_of_pending() attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  %p = graph.constant dense<0.0> : !p
  // expected-error @+2 {{'graph.mul' op is not linear, but operand #0 is a pending sum over "model"}}
  // expected-note @+1 {{reduce it first with a dist.reshard}}
  %y = graph.mul %p, %p : !p
  return
}

// -----

!p = tensor<8x16xf32, #dist.shard<_, _, sum "model">>
func.func @div_of_pending() attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  %p = graph.constant dense<0.0> : !p
  // expected-error @+2 {{'graph.div' op is not linear, but operand #0 is a pending sum over "model"}}
  // expected-note @+1 {{reduce it first with a dist.reshard}}
  %y = graph.div %p, %p : !p
  return
}

// -----

!p = tensor<8x16xf32, #dist.shard<_, _, sum "model">>
func.func @max_of_pending() attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  %p = graph.constant dense<0.0> : !p
  // expected-error @+2 {{'graph.max' op is not linear, but operand #0 is a pending sum over "model"}}
  // expected-note @+1 {{reduce it first with a dist.reshard}}
  %y = graph.max %p, %p : !p
  return
}

// -----

!p = tensor<8x16xf32, #dist.shard<_, _, sum "model">>
func.func @pow_of_pending() attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  %p = graph.constant dense<0.0> : !p
  // expected-error @+2 {{'graph.pow' op is not linear, but operand #0 is a pending sum over "model"}}
  // expected-note @+1 {{reduce it first with a dist.reshard}}
  %y = graph.pow %p, %p : !p
  return
}

// -----

!p = tensor<8x16xf32, #dist.shard<_, _, sum "model">>
!b = tensor<8x16xi1>
func.func @compare_of_pending() attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  %p = graph.constant dense<0.0> : !p
  // expected-error @+2 {{'graph.compare' op is not linear, but operand #0 is a pending sum over "model"}}
  // expected-note @+1 {{reduce it first with a dist.reshard}}
  %y = graph.compare lt %p, %p : (!p, !p) -> !b
  return
}

// -----

!c = tensor<8x16xi1>
!p = tensor<8x16xf32, #dist.shard<_, _, sum "model">>
func.func @select_of_pending(%c: !c) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  %p = graph.constant dense<0.0> : !p
  // expected-error @+2 {{'graph.select' op is not linear, but operand #1 is a pending sum over "model"}}
  // expected-note @+1 {{reduce it first with a dist.reshard}}
  %y = graph.select %c, %p, %p : (!c, !p, !p) -> !p
  return
}

// -----

!p = tensor<8x16xf32, #dist.shard<_, _, sum "model">>
!h = tensor<8x16xf16, #dist.shard<_, _, sum "model">>
func.func @cast_of_pending() attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  %p = graph.constant dense<0.0> : !p
  // expected-error @+2 {{'graph.cast' op is not linear, but operand #0 is a pending sum over "model"}}
  // expected-note @+1 {{reduce it first with a dist.reshard}}
  %y = graph.cast %p : (!p) -> !h
  return
}

// -----

!p = tensor<8x16xf32, #dist.shard<_, _, sum "model">>
!y = tensor<8xf32, #dist.shard<_, sum "model">>
func.func @max_of_pending_sum() attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  %p = graph.constant dense<0.0> : !p
  // expected-error @+2 {{'graph.reduce_max' op is not linear, but operand #0 is a pending sum over "model"}}
  // expected-note @+1 {{reduce it first with a dist.reshard}}
  %y = graph.reduce_max %p {dims = array<i64: 1>} : (!p) -> !y
  return
}

// -----

!x = tensor<8x16xf32>
!p = tensor<8x16xf32, #dist.shard<_, _, sum "model">>
func.func @scale_of_pending(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  %p = graph.constant dense<0.0> : !p
  // expected-error @+2 {{'graph.mul' op is not linear, but operand #1 is a pending sum over "model"}}
  // expected-note @+1 {{reduce it first with a dist.reshard}}
  %y = "graph.mul"(%x, %p) : (!x, !p) -> !p
  return
}

// -----

!p = tensor<8x16xf32, #dist.shard<_, _, sum "model">>
!y = tensor<8x20xf32, #dist.shard<_, _, sum "model">>
func.func @pad_with_ones() attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  %p = graph.constant dense<0.0> : !p
  // expected-error @+2 {{'graph.pad' op is not linear, but operand #0 is a pending sum over "model"}}
  // expected-note @+1 {{reduce it first with a dist.reshard}}
  %y = graph.pad %p {low = array<i64: 0, 0>, steps = array<i64: 1, 1>, value = 1.0 : f64} : (!p) -> !y
  return
}

// -----

!t = tensor<16x8xf32>
!i = tensor<8xi64, #dist.shard<_, sum "model">>
!y = tensor<8x8xf32, #dist.shard<_, _, sum "model">>
func.func @indices_pending(%t: !t) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  %i = graph.constant dense<0> : !i
  // expected-error @+2 {{'graph.gather' op is not linear, but operand #1 is a pending sum over "model"}}
  // expected-note @+1 {{reduce it first with a dist.reshard}}
  %y = graph.gather %t, %i {dim = 0 : i64} : (!t, !i) -> !y
  return
}

// -----

!t = tensor<16x8xf32, #dist.shard<_, _, sum "model">>
!i = tensor<8xi64>
!y = tensor<8x8xf32, #dist.shard<_, _, sum "model">>
func.func @table_pending(%i: !i) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  %t = graph.constant dense<0.0> : !t
  // expected-error @+2 {{'graph.gather' op is not linear, but operand #0 is a pending sum over "model"}}
  // expected-note @+1 {{reduce it first with a dist.reshard}}
  %y = graph.gather %t, %i {dim = 0 : i64} : (!t, !i) -> !y
  return
}

// -----

// A bias that every device adds would be added several times.
!x = tensor<8x16xf32>
!p = tensor<8x16xf32, #dist.shard<_, _, sum "model">>
func.func @add_final_and_pending(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  %p = graph.constant dense<0.0> : !p
  // expected-error @+2 {{needs all operands pending alike, but operand #0 is a pending sum over "model"}}
  // expected-note @+1 {{reduce it first with a dist.reshard}}
  %y = "graph.add"(%p, %x) : (!p, !x) -> !p
  return
}

// -----

!p = tensor<8x16xf32, #dist.shard<_, _, sum "model">>
!q = tensor<8x16xf32, #dist.shard<_, _, sum "data">>
func.func @add_over_two_axes() attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  %p = graph.constant dense<0.0> : !p
  %q = graph.constant dense<0.0> : !q
  // expected-error @+2 {{needs all operands pending alike, but operand #0 is a pending sum over "model"}}
  // expected-note @+1 {{reduce it first with a dist.reshard}}
  %y = "graph.add"(%p, %q) : (!p, !q) -> !p
  return
}

// -----

!x = tensor<8x16xf32>
!p = tensor<8x16xf32, #dist.shard<_, _, sum "model">>
func.func @sub_pending_from_final(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  %p = graph.constant dense<0.0> : !p
  // expected-error @+2 {{needs all operands pending alike, but operand #1 is a pending sum over "model"}}
  // expected-note @+1 {{reduce it first with a dist.reshard}}
  %y = "graph.sub"(%x, %p) : (!x, !p) -> !p
  return
}

// -----

!x = tensor<8x16xf32>
!p = tensor<8x16xf32, #dist.shard<_, _, sum "model">>
!y = tensor<8x32xf32, #dist.shard<_, _, sum "model">>
func.func @concat_unlike(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  %p = graph.constant dense<0.0> : !p
  // expected-error @+2 {{needs all operands pending alike, but operand #1 is a pending sum over "model"}}
  // expected-note @+1 {{reduce it first with a dist.reshard}}
  %y = graph.concat %x, %p {dim = 1 : i64} : (!x, !p) -> !y
  return
}

// -----

// A product of sums is not the sum of the products.
!p = tensor<8x16xf32, #dist.shard<_, _, sum "model">>
!w = tensor<16x8xf32, #dist.shard<_, _, sum "model">>
!y = tensor<8x8xf32, #dist.shard<_, _, sum "model">>
func.func @product_of_two_pending() attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  %p = graph.constant dense<0.0> : !p
  %w = graph.constant dense<0.0> : !w
  // expected-error @+2 {{is linear in one operand at a time, but not only operand #0 is a pending sum over "model"}}
  // expected-note @+1 {{reduce it first with a dist.reshard}}
  %y = graph.matmul %p, %w : (!p, !w) -> !y
  return
}

// -----

!p = tensor<8x16xf32, #dist.shard<_, _, sum "model">>
!w = tensor<16x8xf32, #dist.shard<_, _, sum "data">>
!y = tensor<8x8xf32, #dist.shard<_, _, sum "data" + "model">>
func.func @product_of_two_axes() attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  %p = graph.constant dense<0.0> : !p
  %w = graph.constant dense<0.0> : !w
  // expected-error @+2 {{is linear in one operand at a time, but not only operand #0 is a pending sum over "model"}}
  // expected-note @+1 {{reduce it first with a dist.reshard}}
  %y = graph.matmul %p, %w : (!p, !w) -> !y
  return
}

// -----

!x = tensor<8x4x6x6xf32, #dist.shard<_, _, _, _, sum "data">>
!f = tensor<8x4x3x3xf32, #dist.shard<_, _, _, _, sum "data">>
!y = tensor<8x8x6x6xf32, #dist.shard<_, _, _, _, sum "data">>
func.func @conv_of_two_pending() attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  %x = graph.constant dense<0.0> : !x
  %f = graph.constant dense<0.0> : !f
  // expected-error @+2 {{is linear in one operand at a time, but not only operand #0 is a pending sum over "data"}}
  // expected-note @+1 {{reduce it first with a dist.reshard}}
  %y = graph.conv %x, %f
        {dilations = array<i64: 1, 1>, groups = 1 : i64, pads_high = array<i64: 1, 1>, pads_low = array<i64: 1, 1>,
        strides = array<i64: 1, 1>}
        : (!x, !f) -> !y
  return
}

// -----

!p = tensor<8x16xf32, #dist.shard<_, _, sum "model">>
!w = tensor<16x8xf32>
!y = tensor<8x8xf32>
func.func @result_forgets_the_operand(%w: !w) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  %p = graph.constant dense<0.0> : !p
  // expected-error @+1 {{'graph.matmul' op result must be a pending sum over "model"}}
  %y = graph.matmul %p, %w : (!p, !w) -> !y
  return
}

// -----

!p = tensor<8x16xf32, #dist.shard<_, _, sum "model">>
!y = tensor<16x8xf32>
func.func @transpose_forgets() attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  %p = graph.constant dense<0.0> : !p
  // expected-error @+1 {{'graph.transpose' op result must be a pending sum over "model"}}
  %y = graph.transpose %p {permutation = array<i64: 1, 0>} : (!p) -> !y
  return
}

// -----

!p = tensor<8xf32, #dist.shard<_, sum "model">>
!y = tensor<4x8xf32>
func.func @broadcast_forgets() attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  %p = graph.constant dense<0.0> : !p
  // expected-error @+1 {{'graph.broadcast' op result must be a pending sum over "model"}}
  %y = graph.broadcast %p {dims = array<i64: 1>} : (!p) -> !y
  return
}

// -----

!x = tensor<16x8xf32>
!i = tensor<8xi64>
!u = tensor<8x8xf32, #dist.shard<_, _, sum "model">>
func.func @pending_updates(%x: !x, %i: !i) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  %u = graph.constant dense<0.0> : !u
  // expected-error @+2 {{'graph.scatter_add' op is not linear, but operand #2 is a pending sum over "model"}}
  // expected-note @+1 {{reduce it first with a dist.reshard}}
  %y = graph.scatter_add %x, %i, %u {dim = 0 : i64} : (!x, !i, !u) -> !x
  return
}
