// RUN: divisi-opt %s --split-input-file --verify-diagnostics

// The result of a sharded contraction is a pending sum.
!x = tensor<8x16xf32, #dist.shard<_, "model">>
!w = tensor<16x8xf32, #dist.shard<"model", _>>
!y = tensor<8x8xf32>
func.func @matmul_rows(%x: !x, %w: !w) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+2 {{'graph.matmul' op result must be a pending sum over "model"}}
  // expected-note @+1 {{contracted factor 'k' is split over "model" in operand #0 (dimension 1)}}
  %y = graph.matmul %x, %w : (!x, !w) -> !y
  return
}

// -----

!x = tensor<8x16xf32, #dist.shard<_, "model">>
!w = tensor<16x8xf32, #dist.shard<"model", _>>
!y = tensor<8x8xf32, #dist.shard<_, _, sum "data">>
func.func @matmul_over_other_axis(%x: !x, %w: !w) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+2 {{'graph.matmul' op result must be a pending sum over "model"}}
  // expected-note @+1 {{contracted factor 'k' is split over "model" in operand #0 (dimension 1)}}
  %y = graph.matmul %x, %w : (!x, !w) -> !y
  return
}

// -----

!x = tensor<8x16xf32, #dist.shard<_, "data" + "model">>
!w = tensor<16x8xf32, #dist.shard<"data" + "model", _>>
!y = tensor<8x8xf32, #dist.shard<_, _, sum "model">>
func.func @matmul_over_one_of_two(%x: !x, %w: !w) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+2 {{'graph.matmul' op result must be a pending sum over "data" + "model"}}
  // expected-note @+1 {{contracted factor 'k' is split over "data" + "model" in operand #0 (dimension 1)}}
  %y = graph.matmul %x, %w : (!x, !w) -> !y
  return
}

// -----

!x = tensor<8x16xf32, #dist.shard<"data", _>>
!y = tensor<16xf32>
func.func @reduced_sum(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+2 {{'graph.reduce_sum' op result must be a pending sum over "data"}}
  // expected-note @+1 {{contracted factor 'd0' is split over "data" in operand #0 (dimension 0)}}
  %y = graph.reduce_sum %x {dims = array<i64: 0>} : (!x) -> !y
  return
}

// -----

!x = tensor<8x16xf32, #dist.shard<"data", "model">>
!y = tensor<f32, #dist.shard<sum "data">>
func.func @reduced_both(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+3 {{'graph.reduce_sum' op result must be a pending sum over "data" + "model"}}
  // expected-note @+2 {{contracted factor 'd0' is split over "data" in operand #0 (dimension 0)}}
  // expected-note @+1 {{contracted factor 'd1' is split over "model" in operand #0 (dimension 1)}}
  %y = graph.reduce_sum %x {dims = array<i64: 0, 1>} : (!x) -> !y
  return
}

// -----

!x = tensor<8x16xf32, #dist.shard<_, "model">>
!y = tensor<8xf32>
func.func @reduced_max(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+2 {{'graph.reduce_max' op result must be a pending max over "model"}}
  // expected-note @+1 {{contracted factor 'd1' is split over "model" in operand #0 (dimension 1)}}
  %y = graph.reduce_max %x {dims = array<i64: 1>} : (!x) -> !y
  return
}

// -----

!x = tensor<8x4x6x6xf32, #dist.shard<_, "model", _, _>>
!f = tensor<8x4x3x3xf32, #dist.shard<_, "model", _, _>>
!y = tensor<8x8x6x6xf32>
func.func @conv_channels(%x: !x, %f: !f) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+2 {{'graph.conv' op result must be a pending sum over "model"}}
  // expected-note @+1 {{contracted factor 'i' is split over "model" in operand #0 (dimension 1)}}
  %y = graph.conv %x, %f
        {dilations = array<i64: 1, 1>, groups = 1 : i64, pads_high = array<i64: 1, 1>, pads_low = array<i64: 1, 1>,
        strides = array<i64: 1, 1>}
        : (!x, !f) -> !y
  return
}

// -----

!g = tensor<8x8x6x6xf32, #dist.shard<_, "model", _, _>>
!f = tensor<8x4x3x3xf32, #dist.shard<"model", _, _, _>>
!x = tensor<8x4x6x6xf32>
func.func @conv_input_grad_channels(%g: !g, %f: !f) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+2 {{'graph.conv_input_grad' op result must be a pending sum over "model"}}
  // expected-note @+1 {{contracted factor 'o' is split over "model" in operand #0 (dimension 1)}}
  %x = graph.conv_input_grad %g, %f
        {dilations = array<i64: 1, 1>, groups = 1 : i64, pads_high = array<i64: 1, 1>, pads_low = array<i64: 1, 1>,
        strides = array<i64: 1, 1>}
        : (!g, !f) -> !x
  return
}

// -----

!x = tensor<8x4x6x6xf32, #dist.shard<"data", _, _, _>>
!g = tensor<8x8x6x6xf32, #dist.shard<"data", _, _, _>>
!f = tensor<8x4x3x3xf32>
func.func @conv_filter_grad_batch(%x: !x, %g: !g) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+2 {{'graph.conv_filter_grad' op result must be a pending sum over "data"}}
  // expected-note @+1 {{contracted factor 'n' is split over "data" in operand #0 (dimension 0)}}
  %f = graph.conv_filter_grad %x, %g
        {dilations = array<i64: 1, 1>, groups = 1 : i64, pads_high = array<i64: 1, 1>, pads_low = array<i64: 1, 1>,
        strides = array<i64: 1, 1>}
        : (!x, !g) -> !f
  return
}

// -----

!t = tensor<16x8xf32, #dist.shard<"model", _>>
!i = tensor<8xi64>
!y = tensor<8x8xf32>
func.func @split_table(%t: !t, %i: !i) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+2 {{'graph.gather' op result must be a pending sum over "model"}}
  // expected-note @+1 {{contracted factor 'row' is split over "model" in operand #0 (dimension 0)}}
  %y = graph.gather %t, %i {dim = 0 : i64} : (!t, !i) -> !y
  return
}

// -----

// Nothing is contracted over the axis: the result is final.
!x = tensor<8x16xf32, #dist.shard<"data", _>>
!w = tensor<16x8xf32>
!y = tensor<8x8xf32, #dist.shard<"data", _, sum "model">>
func.func @whole_matmul(%x: !x, %w: !w) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'graph.matmul' op result must be final, but its type says pending over "model"}}
  %y = graph.matmul %x, %w : (!x, !w) -> !y
  return
}

// -----

!x = tensor<8x16xf32, #dist.shard<"data", _>>
!y = tensor<8x16xf32, #dist.shard<"data", _, sum "model">>
func.func @relu_pending(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'graph.relu' op result must be final, but its type says pending over "model"}}
  %y = "graph.relu"(%x) : (!x) -> !y
  return
}

// -----

!x = tensor<8xi64, #dist.shard<_, sum "model">>
func.func @iota_pending() attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'graph.iota' op result must be final, but its type says pending over "model"}}
  %x = graph.iota {dim = 0 : i64} : !x
  return
}

// -----

!x = tensor<8xf32, #dist.shard<_, sum "model">>
func.func @ones_pending() attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'graph.constant' op result must be final, but its type says pending over "model"}}
  %x = graph.constant dense<1.0> : !x
  return
}

// -----

!s = tensor<i64>
!x = tensor<8xf32, #dist.shard<_, sum "model">>
func.func @random_pending(%s: !s) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'graph.random_uniform' op result must be final, but its type says pending over "model"}}
  %x = graph.random_uniform %s, %s {stream = 0 : i64} : (!s, !s) -> !x
  return
}

// -----

!x = tensor<8x16xf32, #dist.shard<"data", _>>
!y = tensor<16x8xf32, #dist.shard<_, "data", sum "model">>
func.func @transposed_pending(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'graph.transpose' op result must be final, but its type says pending over "model"}}
  %y = graph.transpose %x {permutation = array<i64: 1, 0>} : (!x) -> !y
  return
}

// -----

!t = tensor<16x8xf32>
!i = tensor<8xi64>
!y = tensor<8x8xf32, #dist.shard<_, _, sum "model">>
func.func @whole_table(%t: !t, %i: !i) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'graph.gather' op result must be final, but its type says pending over "model"}}
  %y = graph.gather %t, %i {dim = 0 : i64} : (!t, !i) -> !y
  return
}

// -----

!x = tensor<8x16xf32, #dist.shard<"data", _>>
!y = tensor<8xf32, #dist.shard<"data", sum "model">>
func.func @reduced_kept(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'graph.reduce_sum' op result must be final, but its type says pending over "model"}}
  %y = graph.reduce_sum %x {dims = array<i64: 1>} : (!x) -> !y
  return
}

// -----

!x = tensor<8x16xf32>
!y = tensor<8x8xf32, #dist.shard<_, _, max "model">>
func.func @max_pending_pool(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'graph.sum_pool' op result must be final, but its type says pending over "model"}}
  %y = graph.sum_pool %x {dilations = array<i64: 1, 1>, pads_low = array<i64: 0, 0>, strides = array<i64: 1, 2>,
        window = array<i64: 1, 2>} : (!x) -> !y
  return
}

// -----

// The wrong reduction.
!x = tensor<8x16xf32, #dist.shard<_, "model">>
!y = tensor<8xf32, #dist.shard<_, sum "model">>
func.func @max_as_sum(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+2 {{'graph.reduce_max' op result must be a pending max over "model"}}
  // expected-note @+1 {{contracted factor 'd1' is split over "model" in operand #0 (dimension 1)}}
  %y = graph.reduce_max %x {dims = array<i64: 1>} : (!x) -> !y
  return
}

// -----

!x = tensor<8x16xf32, #dist.shard<_, "model">>
!y = tensor<8xf32, #dist.shard<_, max "model">>
func.func @sum_as_max(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+2 {{'graph.reduce_sum' op result must be a pending sum over "model"}}
  // expected-note @+1 {{contracted factor 'd1' is split over "model" in operand #0 (dimension 1)}}
  %y = graph.reduce_sum %x {dims = array<i64: 1>} : (!x) -> !y
  return
}

// -----

!x = tensor<8x16xf32, #dist.shard<_, "model">>
!y = tensor<8xf32, #dist.shard<_, max "model">>
func.func @min_as_max(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+2 {{'graph.reduce_min' op result must be a pending min over "model"}}
  // expected-note @+1 {{contracted factor 'd1' is split over "model" in operand #0 (dimension 1)}}
  %y = graph.reduce_min %x {dims = array<i64: 1>} : (!x) -> !y
  return
}

// -----

!x = tensor<8x16xf32, #dist.shard<_, "model">>
!w = tensor<16x8xf32, #dist.shard<"model", _>>
!y = tensor<8x8xf32, #dist.shard<_, _, max "model">>
func.func @matmul_as_max(%x: !x, %w: !w) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+2 {{'graph.matmul' op result must be a pending sum over "model"}}
  // expected-note @+1 {{contracted factor 'k' is split over "model" in operand #0 (dimension 1)}}
  %y = graph.matmul %x, %w : (!x, !w) -> !y
  return
}

// -----

// A value that is pending over an axis is not sharded along it.
!l = tensor<8x8xf32, #dist.shard<_, _, sum "data">>
!r = tensor<8x8xf32, #dist.shard<_, "data">>
func.func @pending_and_split(%r: !r) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  %l = graph.constant dense<0.0> : !l
  // expected-error @+1 {{'graph.matmul' op passes on what is pending over "data", which splits its factor 'n'}}
  %y = graph.matmul %l, %r : (!l, !r) -> !r
  return
}

// -----

!x = tensor<2x4x6xf32, #dist.shard<_, _, _, sum "model">>
!f = tensor<8x4x1xf32, #dist.shard<"model", _, _>>
!y = tensor<2x8x6xf32, #dist.shard<_, "model", _>>
func.func @channels_of_pending(%f: !f) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  %x = graph.constant dense<0.0> : !x
  // expected-error @+1 {{'graph.conv' op passes on what is pending over "model", which splits its factor 'o'}}
  %y = graph.conv %x, %f {dilations = array<i64: 1>, groups = 1 : i64, pads_high = array<i64: 0>,
        pads_low = array<i64: 0>, strides = array<i64: 1>} : (!x, !f) -> !y
  return
}
