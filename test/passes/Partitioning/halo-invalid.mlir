// RUN: divisi-opt %s --split-input-file --verify-diagnostics

// A shard must have the rows that its neighbour needs: two, but there is one.
!x = tensor<2x3x4x8xf32, #dist.shard<_, _, "model", _>>
!f = tensor<4x3x5x5xf32>
!y = tensor<2x4x4x8xf32, #dist.shard<_, _, "model", _>>
func.func @conv(%x: !x, %f: !f) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'graph.conv' op splits factor 'h0' of size 4 into 4 parts in operand #0 (dimension 2), but a piece must have at least 2}}
  %y = graph.conv %x, %f {dilations = array<i64: 1, 1>, groups = 1 : i64, pads_high = array<i64: 2, 2>,
      pads_low = array<i64: 2, 2>, strides = array<i64: 1, 1>} : (!x, !f) -> !y
  return
}

// -----

!x = tensor<2x3x8x4xf32, #dist.shard<_, _, _, "model">>
!f = tensor<4x3x5x5xf32>
!y = tensor<2x4x8x4xf32, #dist.shard<_, _, _, "model">>
func.func @input(%y: !y, %f: !f) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'graph.conv_input_grad' op splits factor 'h1' of size 4 into 4 parts in operand #0 (dimension 3), but a piece must have at least 2}}
  %x = graph.conv_input_grad %y, %f {dilations = array<i64: 1, 1>, groups = 1 : i64, pads_high = array<i64: 2, 2>,
      pads_low = array<i64: 2, 2>, strides = array<i64: 1, 1>} : (!y, !f) -> !x
  return
}

// -----

!x = tensor<2x4x8x3xf32, #dist.shard<_, "data" + "model", _, _>>
!f = tensor<4x3x5x5xf32>
!y = tensor<2x4x8x4xf32, #dist.shard<_, "data" + "model", _, _>>
func.func @filter(%x: !x, %y: !y) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 2>} {
  // expected-error @+1 {{'graph.conv_filter_grad' op splits factor 'h0' of size 4 into 4 parts in operand #0 (dimension 1), but a piece must have at least 2}}
  %f = graph.conv_filter_grad %x, %y {channels_last, dilations = array<i64: 1, 1>, groups = 1 : i64,
      pads_high = array<i64: 2, 2>, pads_low = array<i64: 2, 2>, strides = array<i64: 1, 1>} : (!x, !y) -> !f
  return
}
