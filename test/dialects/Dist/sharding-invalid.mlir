// RUN: divisi-opt %s --split-input-file --verify-diagnostics

// Between operands: the contracted rows and columns are sharded differently.
!x = tensor<8x16xf32, #dist.shard<"data", "model">>
!w = tensor<16x8xf32>
!y = tensor<8x8xf32, #dist.shard<"data", _>>
func.func @one_operand_split(%x: !x, %w: !w) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error-re @+2 {{'k'{{.*}}operand #0 (dimension 1){{.*}}"model", but operand #1 (dimension 0){{.*}}whole}}
  // expected-note @+1 {{put a dist.reshard on one of them}}
  %y = graph.matmul %x, %w : (!x, !w) -> !y
  return
}

// -----

!x = tensor<8x16xf32, #dist.shard<_, "data">>
!w = tensor<16x8xf32, #dist.shard<"model", _>>
!y = tensor<8x8xf32, #dist.shard<_, _, sum "data">>
func.func @other_axis(%x: !x, %w: !w) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error-re @+2 {{'k'{{.*}}operand #0 (dimension 1){{.*}}"data", but operand #1 (dimension 0){{.*}}"model"}}
  // expected-note @+1 {{put a dist.reshard on one of them}}
  %y = graph.matmul %x, %w : (!x, !w) -> !y
  return
}

// -----

// Shards in another order are other shards.
!x = tensor<8x16xf32, #dist.shard<"data" + "model", _>>
!y = tensor<16x8xf32, #dist.shard<_, "model" + "data">>
func.func @order_of_axes(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error-re @+2 {{'d1'{{.*}}operand #0{{.*}}"data" + "model", but result #0{{.*}}"model" + "data"}}
  // expected-note @+1 {{put a dist.reshard on one of them}}
  %y = graph.transpose %x {permutation = array<i64: 1, 0>} : (!x) -> !y
  return
}

// -----

!x = tensor<8x16xf32, #dist.shard<"data" + "model", _>>
!y = tensor<16x8xf32, #dist.shard<_, "data">>
func.func @half_as_far(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error-re @+2 {{'d1'{{.*}}operand #0 (dimension 0){{.*}}"data" + "model", but result #0{{.*}}"data"}}
  // expected-note @+1 {{put a dist.reshard on one of them}}
  %y = graph.transpose %x {permutation = array<i64: 1, 0>} : (!x) -> !y
  return
}

// -----

!x = tensor<4x8x16xf32, #dist.shard<"data", _, _>>
!w = tensor<4x16x8xf32>
!y = tensor<4x8x8xf32, #dist.shard<"data", _, _>>
func.func @batch_of_products(%x: !x, %w: !w) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error-re @+2 {{'b0'{{.*}}operand #0 (dimension 0){{.*}}"data", but operand #1 (dimension 0){{.*}}whole}}
  // expected-note @+1 {{put a dist.reshard on one of them}}
  %y = graph.matmul %x, %w : (!x, !w) -> !y
  return
}

// -----

// Between operand and result.
!x = tensor<8x16xf32, #dist.shard<"data", _>>
!w = tensor<16x8xf32>
!y = tensor<8x8xf32>
func.func @result_forgets_rows(%x: !x, %w: !w) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error-re @+2 {{'m'{{.*}}operand #0 (dimension 0){{.*}}"data", but result #0 (dimension 0){{.*}}whole}}
  // expected-note @+1 {{put a dist.reshard on one of them}}
  %y = graph.matmul %x, %w : (!x, !w) -> !y
  return
}

// -----

!x = tensor<8x16xf32>
!w = tensor<16x8xf32>
!y = tensor<8x8xf32, #dist.shard<_, "model">>
func.func @result_invents_columns(%x: !x, %w: !w) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error-re @+2 {{'n'{{.*}}operand #1 (dimension 1){{.*}}whole, but result #0 (dimension 1){{.*}}"model"}}
  // expected-note @+1 {{put a dist.reshard on one of them}}
  %y = graph.matmul %x, %w : (!x, !w) -> !y
  return
}

// -----

!x = tensor<8x16xf32>
!w = tensor<8x16xf32, #dist.shard<_, "model">>
!y = tensor<8x8xf32, #dist.shard<_, "model">>
func.func @transposed_operand(%x: !x, %w: !w) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error-re @+2 {{'k'{{.*}}operand #0 (dimension 1){{.*}}whole, but operand #1 (dimension 1){{.*}}"model"}}
  // expected-note @+1 {{put a dist.reshard on one of them}}
  %y = graph.matmul %x, %w {transpose_rhs} : (!x, !w) -> !y
  return
}

// -----

!b = tensor<16xf32, #dist.shard<"model">>
!y = tensor<8x16xf32, #dist.shard<"data", _>>
func.func @broadcast_bias(%b: !b) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error-re @+2 {{'d1'{{.*}}operand #0 (dimension 0){{.*}}"model", but result #0 (dimension 1){{.*}}whole}}
  // expected-note @+1 {{put a dist.reshard on one of them}}
  %y = graph.broadcast %b {dims = array<i64: 1>} : (!b) -> !y
  return
}

// -----

!x = tensor<8x16xf32, #dist.shard<"data", _>>
!y = tensor<8xf32>
func.func @reduced(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error-re @+2 {{'d0'{{.*}}operand #0 (dimension 0){{.*}}"data", but result #0 (dimension 0){{.*}}whole}}
  // expected-note @+1 {{put a dist.reshard on one of them}}
  %y = graph.reduce_sum %x {dims = array<i64: 1>} : (!x) -> !y
  return
}

// -----

!x = tensor<8xf32, #dist.shard<"data">>
!y = tensor<8xi1>
func.func @compared(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error-re @+2 {{'d0'{{.*}}operand #0 (dimension 0){{.*}}"data", but result #0 (dimension 0){{.*}}whole}}
  // expected-note @+1 {{put a dist.reshard on one of them}}
  %y = graph.compare lt %x, %x : (!x, !x) -> !y
  return
}

// -----

!x = tensor<8xf32, #dist.shard<"data">>
!y = tensor<8xf16, #dist.shard<"model">>
func.func @cast_to_half(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error-re @+2 {{'d0'{{.*}}operand #0 (dimension 0){{.*}}"data", but result #0 (dimension 0){{.*}}"model"}}
  // expected-note @+1 {{put a dist.reshard on one of them}}
  %y = graph.cast %x : (!x) -> !y
  return
}

// -----

!t = tensor<16x8xf32, #dist.shard<_, "model">>
!i = tensor<8xi64>
!y = tensor<8x8xf32>
func.func @looked_up(%t: !t, %i: !i) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error-re @+2 {{'c0'{{.*}}operand #0 (dimension 1){{.*}}"model", but result #0 (dimension 1){{.*}}whole}}
  // expected-note @+1 {{put a dist.reshard on one of them}}
  %y = graph.gather %t, %i {dim = 0 : i64} : (!t, !i) -> !y
  return
}

// -----

!t = tensor<16x8xf32>
!i = tensor<8xi64>
!y = tensor<8x8xf32, #dist.shard<"data", _>>
func.func @indices_whole(%t: !t, %i: !i) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error-re @+2 {{'i0'{{.*}}operand #1 (dimension 0){{.*}}whole, but result #0 (dimension 0){{.*}}"data"}}
  // expected-note @+1 {{put a dist.reshard on one of them}}
  %y = graph.gather %t, %i {dim = 0 : i64} : (!t, !i) -> !y
  return
}

// -----

!x = tensor<8x16xf32, #dist.shard<"data", _>>
!z = tensor<8x16xf32>
!y = tensor<8x32xf32, #dist.shard<"data", _>>
func.func @joined(%x: !x, %z: !z) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error-re @+2 {{'d0'{{.*}}operand #0 (dimension 0){{.*}}"data", but operand #1 (dimension 0){{.*}}whole}}
  // expected-note @+1 {{put a dist.reshard on one of them}}
  %y = graph.concat %x, %z {dim = 1 : i64} : (!x, !z) -> !y
  return
}

// -----

!x = tensor<8x16xf32, #dist.shard<"data", _>>
!v = tensor<8x4xf32, #dist.shard<"data", _>>
!p = tensor<8x4xi64>
func.func @second_result(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error-re @+2 {{'d0'{{.*}}operand #0 (dimension 0){{.*}}"data", but result #1 (dimension 0){{.*}}whole}}
  // expected-note @+1 {{put a dist.reshard on one of them}}
  %v, %p = graph.top_k %x {dim = 1 : i64, k = 4 : i64} : (!x) -> (!v, !p)
  return
}

// -----

!x = tensor<16x8xf32, #dist.shard<_, "model">>
!i = tensor<8xi64>
!u = tensor<8x8xf32>
func.func @scattered(%x: !x, %i: !i, %u: !u) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error-re @+2 {{'c0'{{.*}}operand #0 (dimension 1){{.*}}"model", but operand #2 (dimension 1){{.*}}whole}}
  // expected-note @+1 {{put a dist.reshard on one of them}}
  %y = graph.scatter_add %x, %i, %u {dim = 0 : i64} : (!x, !i, !u) -> !x
  return
}

// -----

!x = tensor<8x4x6x6xf32>
!f = tensor<8x4x3x3xf32>
!y = tensor<8x8x6x6xf32, #dist.shard<_, "model", _, _>>
func.func @filter_whole(%x: !x, %f: !f) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error-re @+2 {{'o'{{.*}}operand #1 (dimension 0){{.*}}whole, but result #0 (dimension 1){{.*}}"model"}}
  // expected-note @+1 {{put a dist.reshard on one of them}}
  %y = graph.conv %x, %f
        {dilations = array<i64: 1, 1>, groups = 1 : i64, pads_high = array<i64: 1, 1>, pads_low = array<i64: 1, 1>,
        strides = array<i64: 1, 1>}
        : (!x, !f) -> !y
  return
}

// -----

!x = tensor<8x16xf32, #dist.shard<"data", _>>
!y = tensor<8x4xf32, #dist.shard<"model", _>>
func.func @kept_dimension_of_slice(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error-re @+2 {{'d0'{{.*}}operand #0 (dimension 0){{.*}}"data", but result #0 (dimension 0){{.*}}"model"}}
  // expected-note @+1 {{put a dist.reshard on one of them}}
  %y = graph.slice %x {starts = array<i64: 0, 0>, steps = array<i64: 1, 1>} : (!x) -> !y
  return
}

// -----

!x = tensor<8x16xf32, #dist.shard<"data", _>>
!z = tensor<8x16xf32, #dist.shard<_, "model">>
func.func @add_of_unlike(%x: !x, %z: !z) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error-re @+2 {{'d0'{{.*}}operand #0 (dimension 0){{.*}}"data", but operand #1 (dimension 0){{.*}}whole}}
  // expected-note @+1 {{put a dist.reshard on one of them}}
  %y = "graph.add"(%x, %z) : (!x, !z) -> !x
  return
}

// -----

!x = tensor<8x16xf32, #dist.shard<"data", _>>
!y = tensor<8x16xf32, #dist.shard<_, "model">>
func.func @relu_of_other(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error-re @+2 {{'d0'{{.*}}operand #0 (dimension 0){{.*}}"data", but result #0 (dimension 0){{.*}}whole}}
  // expected-note @+1 {{put a dist.reshard on one of them}}
  %y = "graph.relu"(%x) : (!x) -> !y
  return
}

// -----

// One axis on two factors.
!t = tensor<16x8xf32, #dist.shard<"model", _>>
!i = tensor<8xi64, #dist.shard<"model">>
!y = tensor<8x8xf32, #dist.shard<"model", _>>
func.func @table_and_indices(%t: !t, %i: !i) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'graph.gather' op splits two factors, 'row' and 'i0', over the same axis "model"}}
  %y = graph.gather %t, %i {dim = 0 : i64} : (!t, !i) -> !y
  return
}

// -----

!x = tensor<16x8xf32, #dist.shard<"data", _>>
!i = tensor<8xi64, #dist.shard<"data">>
!u = tensor<8x8xf32, #dist.shard<"data", _>>
func.func @rows_and_updates(%i: !i, %u: !u) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  %x = graph.constant dense<0.0> : !x
  // expected-error @+1 {{'graph.scatter_add' op splits two factors, 'row' and 'i0', over the same axis "data"}}
  %y = graph.scatter_add %x, %i, %u {dim = 0 : i64} : (!x, !i, !u) -> !x
  return
}

// -----

// Reshapes: 6 heads do not divide into 4 shards, though 24 columns do.
!x = tensor<8x24xf32, #dist.shard<_, "model">>
!y = tensor<8x6x4xf32, #dist.shard<_, _, "model">>
func.func @six_heads(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{operand #0 (dimension 1) is split over "model", which cuts through its factor 'f1' of size 6}}
  %y = graph.reshape %x : (!x) -> !y
  return
}

// -----

!x = tensor<8x8x4xf32, #dist.shard<_, _, "model">>
!y = tensor<8x32xf32, #dist.shard<_, "model">>
func.func @minor_before_major(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error-re @+2 {{'f1'{{.*}}operand #0 (dimension 1){{.*}}whole, but result #0 (dimension 1){{.*}}"model"}}
  // expected-note @+1 {{put a dist.reshard on one of them}}
  %y = graph.reshape %x : (!x) -> !y
  return
}

// -----

!x = tensor<8x8x4xf32, #dist.shard<_, _, "model">>
!y = tensor<8x32xf32>
func.func @minor_into_whole(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error-re @+2 {{'f2'{{.*}}operand #0 (dimension 2){{.*}}"model", but result #0 (dimension 1){{.*}}whole}}
  // expected-note @+1 {{put a dist.reshard on one of them}}
  %y = graph.reshape %x : (!x) -> !y
  return
}

// -----

!x = tensor<8x16xf32, #dist.shard<_, "model" + "data">>
!y = tensor<8x4x4xf32, #dist.shard<_, "model", _>>
func.func @too_many_pieces(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error-re @+2 {{'f2'{{.*}}operand #0 (dimension 1){{.*}}"data", but result #0 (dimension 2){{.*}}whole}}
  // expected-note @+1 {{put a dist.reshard on one of them}}
  %y = graph.reshape %x : (!x) -> !y
  return
}

// -----

!x = tensor<6x4xf32, #dist.shard<_, "data">>
!y = tensor<4x6xf32, #dist.shard<_, "data">>
func.func @no_common_factor(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error-re @+1 {{operand #0 (dimension 1) {{.*}} "data", but this operation has no factor there to split}}
  %y = graph.reshape %x : (!x) -> !y
  return
}
