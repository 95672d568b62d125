// RUN: divisi-opt %s --split-input-file --verify-diagnostics

// Factors that must stay whole.
!x = tensor<8x16xf32, #dist.shard<_, "model">>
func.func @softmax_dim(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{needs factor 'd1' whole, but operand #0 (dimension 1) is split over "model"}}
  %y = graph.softmax %x {dim = 1 : i64} : (!x) -> !x
  return
}

// -----

!x = tensor<8x16xf32, #dist.shard<"data", _>>
func.func @log_softmax_dim(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{needs factor 'd0' whole, but operand #0 (dimension 0) is split over "data"}}
  %y = graph.log_softmax %x {dim = 0 : i64} : (!x) -> !x
  return
}

// -----

!x = tensor<8x16xf32, #dist.shard<"data", "model">>
!y = tensor<8xi64, #dist.shard<"data">>
func.func @argmax_dim(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{needs factor 'd1' whole, but operand #0 (dimension 1) is split over "model"}}
  %y = graph.argmax %x {dim = 1 : i64} : (!x) -> !y
  return
}

// -----

!x = tensor<8x16xf32, #dist.shard<"data", _>>
!y = tensor<16xi64>
func.func @argmin_dim(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'graph.argmin' op needs factor 'd0' whole, but operand #0 (dimension 0) is split over "data"}}
  %y = graph.argmin %x {dim = 0 : i64} : (!x) -> !y
  return
}

// -----

!x = tensor<8x16xf32, #dist.shard<"data", "model">>
func.func @cumsum_dim(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{needs factor 'd1' whole, but operand #0 (dimension 1) is split over "model"}}
  %y = graph.cumsum %x {dim = 1 : i64} : (!x) -> !x
  return
}

// -----

!x = tensor<8x16xf32, #dist.shard<_, "model">>
!y = tensor<8xf32>
func.func @product_dim(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{needs factor 'd1' whole, but operand #0 (dimension 1) is split over "model"}}
  %y = graph.reduce_prod %x {dims = array<i64: 1>} : (!x) -> !y
  return
}

// -----

!x = tensor<8x16xf32, #dist.shard<_, "model">>
!s = tensor<16xf32, #dist.shard<"model">>
func.func @layer_norm_dim(%x: !x, %s: !s) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{needs factor 'd1' whole, but operand #0 (dimension 1) is split over "model"}}
  %y = graph.layer_norm %x, %s, %s {dim = 1 : i64, epsilon = 1.0e-5 : f64} : (!x, !s, !s) -> !x
  return
}

// -----

!x = tensor<8x16xf32, #dist.shard<_, "data">>
!s = tensor<16xf32, #dist.shard<"data">>
func.func @rms_norm_dim(%x: !x, %s: !s) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{needs factor 'd1' whole, but operand #0 (dimension 1) is split over "data"}}
  %y = graph.rms_norm %x, %s {dim = 1 : i64, epsilon = 1.0e-5 : f64} : (!x, !s) -> !x
  return
}

// -----

!x = tensor<8x4x6xf32, #dist.shard<"data", _, _>>
!s = tensor<4xf32>
func.func @batch_norm_batch(%x: !x, %s: !s) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{needs factor 'd0' whole, but operand #0 (dimension 0) is split over "data"}}
  %y:3 = graph.batch_norm %x, %s, %s, %s, %s {dim = 1 : i64, epsilon = 1.0e-5 : f64}
        : (!x, !s, !s, !s, !s) -> (!x, !s, !s)
  return
}

// -----

!x = tensor<8x16xf32, #dist.shard<_, "model">>
!l = tensor<8xi64>
!y = tensor<8xf32>
func.func @cross_entropy_classes(%x: !x, %l: !l) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{needs factor 'c' whole, but operand #0 (dimension 1) is split over "model"}}
  %y = graph.cross_entropy %x, %l : (!x, !l) -> !y
  return
}

// -----

!x = tensor<8x16xf32, #dist.shard<"data", _>>
func.func @reversed(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'graph.slice' op needs factor 'd0' whole, but operand #0 (dimension 0) is split over "data"}}
  %y = graph.slice %x {starts = array<i64: 7, 0>, steps = array<i64: -1, 1>} : (!x) -> !x
  return
}

// -----

!x = tensor<8x16xf32, #dist.shard<"data", _>>
func.func @reversed_pad(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'graph.pad' op needs factor 'd0' whole, but operand #0 (dimension 0) is split over "data"}}
  %y = graph.pad %x {low = array<i64: 7, 0>, steps = array<i64: -1, 1>, value = 0.0 : f64} : (!x) -> !x
  return
}

// -----

!x = tensor<16x8xf32>
!i = tensor<8x1xi64, #dist.shard<"data", _>>
!u = tensor<8x8xf32, #dist.shard<"data", _>>
func.func @scatter_nd_points(%x: !x, %i: !i, %u: !u) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{needs factor 'i0' whole, but operand #1 (dimension 0) is split over "data"}}
  %y = graph.scatter_nd %x, %i, %u {batch_dims = 0 : i64, combine = #graph<combine add>} : (!x, !i, !u) -> !x
  return
}

// -----

// Dimensions without factor.
!x = tensor<8x16xf32, #dist.shard<_, "model">>
!y = tensor<8x8xf32, #dist.shard<_, "model">>
func.func @slice_window(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error-re @+1 {{operand #0 (dimension 1) {{.*}} "model", but this operation has no factor there to split}}
  %y = graph.slice %x {starts = array<i64: 0, 0>, steps = array<i64: 1, 1>} : (!x) -> !y
  return
}

// -----

!x = tensor<8x16xf32>
!y = tensor<8x8xf32, #dist.shard<_, "model">>
func.func @slice_result(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error-re @+1 {{result #0 (dimension 1) {{.*}} "model", but this operation has no factor there to split}}
  %y = graph.slice %x {starts = array<i64: 0, 0>, steps = array<i64: 1, 1>} : (!x) -> !y
  return
}

// -----

!x = tensor<8x16xf32, #dist.shard<"data", _>>
!y = tensor<12x16xf32, #dist.shard<"data", _>>
func.func @pad_window(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error-re @+1 {{operand #0 (dimension 0) {{.*}} "data", but this operation has no factor there to split}}
  %y = graph.pad %x {low = array<i64: 2, 0>, steps = array<i64: 1, 1>, value = 0.0 : f64} : (!x) -> !y
  return
}

// -----

!x = tensor<8x16xf32, #dist.shard<_, "model">>
!y = tensor<8x32xf32, #dist.shard<_, "model">>
func.func @concat_dim(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error-re @+1 {{operand #0 (dimension 1) {{.*}} "model", but this operation has no factor there to split}}
  %y = graph.concat %x, %x {dim = 1 : i64} : (!x, !x) -> !y
  return
}

// -----

// Spatial dimensions have a factor if the sizes of input and output have the ratio of the stride: not here.
!x = tensor<8x4x6x6xf32, #dist.shard<_, _, "data", _>>
!f = tensor<8x4x3x3xf32>
!y = tensor<8x8x4x4xf32, #dist.shard<_, _, "data", _>>
func.func @conv_unpadded(%x: !x, %f: !f) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error-re @+1 {{operand #0 (dimension 2) {{.*}} "data", but this operation has no factor there to split}}
  %y = graph.conv %x, %f
        {dilations = array<i64: 1, 1>, groups = 1 : i64, pads_high = array<i64: 0, 0>, pads_low = array<i64: 0, 0>,
        strides = array<i64: 1, 1>}
        : (!x, !f) -> !y
  return
}

// -----

!x = tensor<8x4x7x7xf32>
!f = tensor<8x4x3x3xf32>
!y = tensor<8x8x4x4xf32, #dist.shard<_, _, _, "data">>
func.func @conv_stride_of_odd(%x: !x, %f: !f) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error-re @+1 {{result #0 (dimension 3) {{.*}} "data", but this operation has no factor there to split}}
  %y = graph.conv %x, %f
        {dilations = array<i64: 1, 1>, groups = 1 : i64, pads_high = array<i64: 1, 1>, pads_low = array<i64: 1, 1>,
        strides = array<i64: 2, 2>}
        : (!x, !f) -> !y
  return
}

// -----

// A single row cannot be sharded.
!x = tensor<8x4x1x8xf32, #dist.shard<_, _, "data", _>>
!f = tensor<8x4x1x1xf32>
!y = tensor<8x8x1x8xf32>
func.func @conv_one_row(%x: !x, %f: !f) attributes {dist.mesh = #dist.mesh<"data" = 1>} {
  // expected-error-re @+1 {{operand #0 (dimension 2) {{.*}} "data", but this operation has no factor there to split}}
  %y = graph.conv %x, %f
        {dilations = array<i64: 1, 1>, groups = 1 : i64, pads_high = array<i64: 0, 0>, pads_low = array<i64: 0, 0>,
        strides = array<i64: 1, 1>}
        : (!x, !f) -> !y
  return
}

// -----

!x = tensor<8x4x6x6xf32>
!f = tensor<8x4x2x2xf32, #dist.shard<_, _, _, "data">>
!y = tensor<8x8x5x5xf32>
func.func @conv_window(%x: !x, %f: !f) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error-re @+1 {{operand #1 (dimension 3) {{.*}} "data", but this operation has no factor there to split}}
  %y = graph.conv %x, %f
        {dilations = array<i64: 1, 1>, groups = 1 : i64, pads_high = array<i64: 0, 0>, pads_low = array<i64: 0, 0>,
        strides = array<i64: 1, 1>}
        : (!x, !f) -> !y
  return
}

// -----

!x = tensor<8x4x6x6xf32>
!g = tensor<8x8x5x5xf32>
!f = tensor<8x4x2x2xf32, #dist.shard<_, _, "data", _>>
func.func @filter_grad_window(%x: !x, %g: !g) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error-re @+1 {{result #0 (dimension 2) {{.*}} "data", but this operation has no factor there to split}}
  %f = graph.conv_filter_grad %x, %g
        {dilations = array<i64: 1, 1>, groups = 1 : i64, pads_high = array<i64: 0, 0>, pads_low = array<i64: 0, 0>,
        strides = array<i64: 1, 1>}
        : (!x, !g) -> !f
  return
}

// -----

!x = tensor<16x8xf32, #dist.shard<"model", _>>
!i = tensor<8x1xi64>
!y = tensor<8x8xf32>
func.func @gather_nd_rows(%x: !x, %i: !i) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error-re @+1 {{operand #0 (dimension 0) {{.*}} "model", but this operation has no factor there to split}}
  %y = graph.gather_nd %x, %i {batch_dims = 0 : i64} : (!x, !i) -> !y
  return
}

// -----

!x = tensor<16x8xf32>
!i = tensor<8x2xi64, #dist.shard<_, "data">>
!y = tensor<8xf32>
func.func @index_vectors(%x: !x, %i: !i) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error-re @+1 {{operand #1 (dimension 1) {{.*}} "data", but this operation has no factor there to split}}
  %y = graph.gather_nd %x, %i {batch_dims = 0 : i64} : (!x, !i) -> !y
  return
}

// -----

!x = tensor<16x8xf32, #dist.shard<"model", _>>
!i = tensor<8x1xi64>
!u = tensor<8x8xf32>
func.func @scatter_nd_rows(%x: !x, %i: !i, %u: !u) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error-re @+1 {{operand #0 (dimension 0) {{.*}} "model", but this operation has no factor there to split}}
  %y = graph.scatter_nd %x, %i, %u {batch_dims = 0 : i64, combine = #graph<combine add>} : (!x, !i, !u) -> !x
  return
}

// -----

!x = tensor<8x16xf32, #dist.shard<_, "model">>
!v = tensor<8x4xf32>
!p = tensor<8x4xi64>
func.func @top_k_dim(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error-re @+1 {{operand #0 (dimension 1) {{.*}} "model", but this operation has no factor there to split}}
  %v, %p = graph.top_k %x {dim = 1 : i64, k = 4 : i64} : (!x) -> (!v, !p)
  return
}

// -----

!x = tensor<8x16xf32, #dist.shard<_, "model">>
!p = tensor<8x16xi64, #dist.shard<_, "model">>
func.func @top_k_all(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error-re @+1 {{operand #0 (dimension 1) {{.*}} "model", but this operation has no factor there to split}}
  %v, %p = graph.top_k %x {dim = 1 : i64, k = 16 : i64} : (!x) -> (!x, !p)
  return
}

// -----

!x = tensor<8x16xf32, #dist.shard<_, "model">>
!i = tensor<8x16xi64, #dist.shard<_, "model">>
func.func @gather_elements_dim(%x: !x, %i: !i) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error-re @+1 {{operand #0 (dimension 1) {{.*}} "model", but this operation has no factor there to split}}
  %y = graph.gather_elements %x, %i {dim = 1 : i64} : (!x, !i) -> !x
  return
}

// -----

!x = tensor<8x16xf32, #dist.shard<"data", _>>
!i = tensor<8x16xi64, #dist.shard<"data", _>>
func.func @scatter_elements_dim(%x: !x, %i: !i) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error-re @+1 {{operand #0 (dimension 0) {{.*}} "data", but this operation has no factor there to split}}
  %y = graph.scatter_elements %x, %i, %x {combine = #graph<combine max>, dim = 0 : i64} : (!x, !i, !x) -> !x
  return
}

// -----

!x = tensor<8x16xf32, #dist.shard<"data", _>>
!i = tensor<4x16xi64, #dist.shard<"data", _>>
!y = tensor<4x16xf32, #dist.shard<"data", _>>
func.func @gather_elements_fewer(%x: !x, %i: !i) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error-re @+1 {{operand #0 (dimension 0) {{.*}} "data", but this operation has no factor there to split}}
  %y = graph.gather_elements %x, %i {dim = 1 : i64} : (!x, !i) -> !y
  return
}

// -----

// Windows that overlap, that leave gaps, that begin before the tensor, that reach beyond it.
!x = tensor<8x16xf32, #dist.shard<_, "model">>
func.func @pool_overlap(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error-re @+1 {{operand #0 (dimension 1) {{.*}} "model", but this operation has no factor there to split}}
  %y = graph.sum_pool %x {dilations = array<i64: 1, 1>, pads_low = array<i64: 0, 0>, strides = array<i64: 1, 1>,
        window = array<i64: 1, 2>} : (!x) -> !x
  return
}

// -----

!x = tensor<8x16xf32, #dist.shard<_, "model">>
!y = tensor<8x8xf32, #dist.shard<_, "model">>
func.func @pool_gaps(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error-re @+1 {{operand #0 (dimension 1) {{.*}} "model", but this operation has no factor there to split}}
  %y = graph.sum_pool %x {dilations = array<i64: 1, 1>, pads_low = array<i64: 0, 0>, strides = array<i64: 1, 2>,
        window = array<i64: 1, 1>} : (!x) -> !y
  return
}

// -----

!x = tensor<8x16xf32>
!y = tensor<8x8xf32, #dist.shard<_, "model">>
!p = tensor<8x8xi32, #dist.shard<_, "model">>
func.func @pool_before(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error-re @+1 {{result #0 (dimension 1) {{.*}} "model", but this operation has no factor there to split}}
  %y, %p = graph.max_pool %x {dilations = array<i64: 1, 1>, pads_low = array<i64: 0, 1>, strides = array<i64: 1, 2>,
        window = array<i64: 1, 2>} : (!x) -> (!y, !p)
  return
}

// -----

!x = tensor<8x15xf32>
!y = tensor<8x8xf32, #dist.shard<_, "model">>
!p = tensor<8x8xi32, #dist.shard<_, "model">>
func.func @pool_beyond(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error-re @+1 {{result #0 (dimension 1) {{.*}} "model", but this operation has no factor there to split}}
  %y, %p = graph.max_pool %x {dilations = array<i64: 1, 1>, pads_low = array<i64: 0, 0>, strides = array<i64: 1, 2>,
        window = array<i64: 1, 2>} : (!x) -> (!y, !p)
  return
}

// -----

!x = tensor<8x16xf32>
!y = tensor<8x8xf32, #dist.shard<_, "model">>
func.func @pool_dilated(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error-re @+1 {{result #0 (dimension 1) {{.*}} "model", but this operation has no factor there to split}}
  %y = graph.sum_pool %x {dilations = array<i64: 1, 2>, pads_low = array<i64: 0, 0>, strides = array<i64: 1, 2>,
        window = array<i64: 1, 2>} : (!x) -> !y
  return
}

// -----

// Adjacent windows: both sides are sharded alike.
!x = tensor<8x16xf32, #dist.shard<"data", "model">>
!y = tensor<8x8xf32, #dist.shard<"data", _>>
!p = tensor<8x8xi32, #dist.shard<"data", _>>
func.func @max_pool_window(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+2 {{splits factor 'd1' inconsistently: operand #0 (dimension 1) is split over "model", but result #0 (dimension 1) is whole}}
  // expected-note @+1 {{put a dist.reshard on one of them}}
  %y, %p = graph.max_pool %x {dilations = array<i64: 1, 1>, pads_low = array<i64: 0, 0>, strides = array<i64: 1, 2>,
        window = array<i64: 1, 2>} : (!x) -> (!y, !p)
  return
}

// -----

// Eight elements are four windows: four shards of the input, but not eight.
!x = tensor<2x8xf32, #dist.shard<_, "data" + "model">>
!y = tensor<2x4xf32>
func.func @pool_pieces(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{operand #0 (dimension 1) is split over "data" + "model", which cuts through its factor 'd1' of size 4}}
  %y = graph.sum_pool %x {dilations = array<i64: 1, 1>, pads_low = array<i64: 0, 0>, strides = array<i64: 1, 2>,
        window = array<i64: 1, 2>} : (!x) -> !y
  return
}

// -----

!c = tensor<4xi64, #dist.shard<"data">>
func.func @listed_constant() attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error-re @+1 {{result #0 (dimension 0) {{.*}} "data", but this operation has no factor there to split}}
  %c = graph.constant dense<[1, 2, 3, 4]> : !c
  return
}

// -----

// Uneven sizes.
!x = tensor<63x8xf32, #dist.shard<"model", _>>
func.func @rows_of_63() attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{result #0: dimension 0 of size 63 does not divide into 4 parts over "model"}}
  %x = graph.constant dense<0.0> : !x
  return
}

// -----

!x = tensor<12xi64, #dist.shard<"data" + "model">>
func.func @uneven_product() attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{result #0: dimension 0 of size 12 does not divide into 8 parts over "data" + "model"}}
  %x = graph.iota {dim = 0 : i64} : !x
  return
}

// -----

!x = tensor<8x3xf32>
!y = tensor<3x8xf32, #dist.shard<"data", _>>
func.func @uneven_result(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{result #0: dimension 0 of size 3 does not divide into 2 parts over "data"}}
  %y = graph.transpose %x {permutation = array<i64: 1, 0>} : (!x) -> !y
  return
}

// -----

!s = tensor<i64>
!x = tensor<6x8xf32, #dist.shard<"model", _>>
func.func @uneven_random(%s: !s) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{result #0: dimension 0 of size 6 does not divide into 4 parts over "model"}}
  %x = graph.random_uniform %s, %s {stream = 0 : i64} : (!s, !s) -> !x
  return
}

// -----

// Unknown axes.
!x = tensor<8x8xf32, #dist.shard<"pipeline", _>>
func.func @unknown_axis() attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'graph.constant' op result #0: the mesh has no axis "pipeline"}}
  %x = graph.constant dense<0.0> : !x
  return
}

// -----

!x = tensor<8x8xf32, #dist.shard<_, _, sum "expert">>
func.func @unknown_pending_axis() attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'graph.constant' op result #0: the mesh has no axis "expert"}}
  %x = graph.constant dense<0.0> : !x
  return
}

// -----

!x = tensor<8xi64, #dist.shard<"Data">>
func.func @case_matters() attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'graph.iota' op result #0: the mesh has no axis "Data"}}
  %x = graph.iota {dim = 0 : i64} : !x
  return
}
