// RUN: divisi-opt %s --split-input-file --verify-diagnostics

!x = tensor<8x4xf32>
func.func @nowhere(%x: !x) {
  // expected-error @+1 {{'dist.all_reduce' op constraint 1: is not in a partitioned function ('dist.partitioned')}}
  %y = dist.all_reduce sum over ["data"] %x : (!x) -> !x
  return
}

// -----

!x = tensor<8x4xf32>
!y = tensor<16x4xf32>
func.func @nowhere_gather(%x: !x) {
  // expected-error @+1 {{'dist.all_gather' op constraint 1: is not in a partitioned function ('dist.partitioned')}}
  %y = dist.all_gather %x dim 0 over ["data"] : !x -> !y
  return
}

// -----

!x = tensor<8x4xf32>
!y = tensor<4x4xf32>
func.func @nowhere_scatter(%x: !x) {
  // expected-error @+1 {{'dist.reduce_scatter' op constraint 1: is not in a partitioned function ('dist.partitioned')}}
  %y = dist.reduce_scatter sum dim 0 over ["data"] %x : !x -> !y
  return
}

// -----

!x = tensor<8x4xf32>
!y = tensor<16x2xf32>
func.func @nowhere_all_to_all(%x: !x) {
  // expected-error @+1 {{'dist.all_to_all' op constraint 1: is not in a partitioned function ('dist.partitioned')}}
  %y = dist.all_to_all %x dim 0 to 1 over ["data"] : !x -> !y
  return
}

// -----

!x = tensor<8x4xf32>
func.func @nowhere_permute(%x: !x) {
  // expected-error @+1 {{'dist.permute' op constraint 1: is not in a partitioned function ('dist.partitioned')}}
  %y = dist.permute %x by 1 over ["data"] : !x -> !x
  return
}

// -----

!x = tensor<8x4xf32>
func.func @reduce_unknown(%x: !x) attributes {dist.partitioned = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'dist.all_reduce' op constraint 2: the mesh has no axis "pipeline", or it is named twice}}
  %y = dist.all_reduce sum over ["pipeline"] %x : (!x) -> !x
  return
}

// -----

!x = tensor<8x4xf32>
func.func @reduce_twice(%x: !x) attributes {dist.partitioned = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'dist.all_reduce' op constraint 2: the mesh has no axis "data", or it is named twice}}
  %y = dist.all_reduce sum over ["data", "data"] %x : (!x) -> !x
  return
}

// -----

!x = tensor<8x4xf32>
func.func @reduce_nobody(%x: !x) attributes {dist.partitioned = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'dist.all_reduce' op constraint 2: needs at least one axis}}
  %y = dist.all_reduce sum over [] %x : (!x) -> !x
  return
}

// -----

!x = tensor<8x4xf32>
func.func @reduce_number(%x: !x) attributes {dist.partitioned = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'dist.all_reduce' op attribute 'axes' failed to satisfy constraint: string array attribute}}
  %y = dist.all_reduce sum over [1] %x : (!x) -> !x
  return
}

// -----

!x = tensor<8x4xf32>
func.func @reduce_product(%x: !x) attributes {dist.partitioned = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error-re @+2 {{expected ::divisi::dist::ReductionKind to be one of: sum, max, min}}
  // expected-error-re @+1 {{failed to parse Dist_ReductionAttr}}
  %y = dist.all_reduce product over ["data"] %x : (!x) -> !x
  return
}

// -----

!x = tensor<8x4xf32>
func.func @reduce_nothing(%x: !x) attributes {dist.partitioned = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'dist.all_reduce' op constraint 3: expected as many results as operands, at least one}}
  dist.all_reduce sum over ["data"] : () -> ()
  return
}

// -----

!x = tensor<8x4xf32>
func.func @reduce_count(%x: !x) attributes {dist.partitioned = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'dist.all_reduce' op constraint 3: expected as many results as operands, at least one}}
  %y = dist.all_reduce sum over ["data"] %x, %x : (!x, !x) -> !x
  return
}

// -----

!x = tensor<8x4xf32>
!y = tensor<4x4xf32>
func.func @reduce_shape(%x: !x) attributes {dist.partitioned = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'dist.all_reduce' op constraint 4: expected results of the operands' types, and one element type}}
  %y = dist.all_reduce sum over ["data"] %x : (!x) -> !y
  return
}

// -----

!x = tensor<8x4xf32>
!z = tensor<4xf16>
func.func @reduce_elements(%x: !x, %z: !z) attributes {dist.partitioned = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'dist.all_reduce' op constraint 4: expected results of the operands' types, and one element type}}
  %y, %w = dist.all_reduce sum over ["data"] %x, %z : (!x, !z) -> (!x, !z)
  return
}

// -----

!x = tensor<8x4xf32>
!y = tensor<8x8xf32>
func.func @gather_shape(%x: !x) attributes {dist.partitioned = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'dist.all_gather' op constraint 4: expected a result of shape 'tensor<16x4xf32>', got 'tensor<8x8xf32>'}}
  %y = dist.all_gather %x dim 0 over ["data"] : !x -> !y
  return
}

// -----

!x = tensor<8x4xf32>
!y = tensor<16x4xf32>
func.func @gather_less(%x: !x) attributes {dist.partitioned = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'dist.all_gather' op constraint 4: expected a result of shape 'tensor<64x4xf32>', got 'tensor<16x4xf32>'}}
  %y = dist.all_gather %x dim 0 over ["data", "model"] : !x -> !y
  return
}

// -----

!x = tensor<8x4xf32>
func.func @gather_dim(%x: !x) attributes {dist.partitioned = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'dist.all_gather' op constraint 3: dim 2 is out of range for 'tensor<8x4xf32>'}}
  %y = dist.all_gather %x dim 2 over ["data"] : !x -> !x
  return
}

// -----

!x = tensor<8x4xf32>
func.func @gather_negative(%x: !x) attributes {dist.partitioned = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'dist.all_gather' op constraint 3: dim -1 is out of range for 'tensor<8x4xf32>'}}
  %y = dist.all_gather %x dim -1 over ["data"] : !x -> !x
  return
}

// -----

!x = tensor<8x4xf32>
!y = tensor<16x4xf16>
func.func @gather_element(%x: !x) attributes {dist.partitioned = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'dist.all_gather' op constraint 4: expected a result of shape 'tensor<16x4xf32>', got 'tensor<16x4xf16>'}}
  %y = dist.all_gather %x dim 0 over ["data"] : !x -> !y
  return
}

// -----

!x = tensor<8x4xf32>
!y = tensor<16x4xf32>
func.func @gather_unknown(%x: !x) attributes {dist.partitioned = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'dist.all_gather' op constraint 2: the mesh has no axis "rows", or it is named twice}}
  %y = dist.all_gather %x dim 0 over ["rows"] : !x -> !y
  return
}

// -----

!x = tensor<f32>
func.func @gather_scalar(%x: !x) attributes {dist.partitioned = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'dist.all_gather' op constraint 3: dim 0 is out of range for 'tensor<f32>'}}
  %y = dist.all_gather %x dim 0 over ["data"] : !x -> !x
  return
}

// -----

!x = tensor<8x4xf32>
!y = tensor<8x1xf32>
func.func @scatter_uneven(%x: !x) attributes {dist.partitioned = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'dist.reduce_scatter' op constraint 5: dimension 1 of 'tensor<8x4xf32>' does not divide into 8 parts}}
  %y = dist.reduce_scatter sum dim 1 over ["data", "model"] %x : !x -> !y
  return
}

// -----

!x = tensor<8x4xf32>
!y = tensor<4x4xf32>
func.func @scatter_shape(%x: !x) attributes {dist.partitioned = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'dist.reduce_scatter' op constraint 4: expected a result of shape 'tensor<2x4xf32>', got 'tensor<4x4xf32>'}}
  %y = dist.reduce_scatter sum dim 0 over ["model"] %x : !x -> !y
  return
}

// -----

!x = tensor<8x4xf32>
func.func @scatter_dim(%x: !x) attributes {dist.partitioned = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'dist.reduce_scatter' op constraint 3: dim 5 is out of range for 'tensor<8x4xf32>'}}
  %y = dist.reduce_scatter max dim 5 over ["model"] %x : !x -> !x
  return
}

// -----

!x = tensor<8x4xf32>
!y = tensor<2x4xf32>
func.func @scatter_twice(%x: !x) attributes {dist.partitioned = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'dist.reduce_scatter' op constraint 2: the mesh has no axis "data", or it is named twice}}
  %y = dist.reduce_scatter sum dim 0 over ["data", "data"] %x : !x -> !y
  return
}

// -----

!x = tensor<8x4xf32>
func.func @all_to_all_same(%x: !x) attributes {dist.partitioned = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'dist.all_to_all' op constraint 3: expected two different dimensions of 'tensor<8x4xf32>'}}
  %y = dist.all_to_all %x dim 0 to 0 over ["data"] : !x -> !x
  return
}

// -----

!x = tensor<8x4xf32>
!y = tensor<64x1xf32>
func.func @all_to_all_uneven(%x: !x) attributes {dist.partitioned = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'dist.all_to_all' op constraint 5: dimension 1 of 'tensor<64x4xf32>' does not divide into 8 parts}}
  %y = dist.all_to_all %x dim 0 to 1 over ["data", "model"] : !x -> !y
  return
}

// -----

!x = tensor<8x4xf32>
!y = tensor<4x8xf32>
func.func @all_to_all_shape(%x: !x) attributes {dist.partitioned = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'dist.all_to_all' op constraint 4: expected a result of shape 'tensor<16x2xf32>', got 'tensor<4x8xf32>'}}
  %y = dist.all_to_all %x dim 0 to 1 over ["data"] : !x -> !y
  return
}

// -----

!x = tensor<8x4xf32>
func.func @all_to_all_from(%x: !x) attributes {dist.partitioned = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'dist.all_to_all' op constraint 3: expected two different dimensions of 'tensor<8x4xf32>'}}
  %y = dist.all_to_all %x dim 2 to 1 over ["data"] : !x -> !x
  return
}

// -----

!x = tensor<8x4xf32>
func.func @all_to_all_to(%x: !x) attributes {dist.partitioned = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'dist.all_to_all' op constraint 3: dim 2 is out of range for 'tensor<16x4xf32>'}}
  %y = dist.all_to_all %x dim 0 to 2 over ["data"] : !x -> !x
  return
}

// -----

!x = tensor<8x4xf32>
func.func @all_to_all_nobody(%x: !x) attributes {dist.partitioned = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'dist.all_to_all' op constraint 2: needs at least one axis}}
  %y = dist.all_to_all %x dim 0 to 1 over [] : !x -> !x
  return
}

// -----

!x = tensor<8x4xf32>
!y = tensor<4x4xf32>
func.func @permute_type(%x: !x) attributes {dist.partitioned = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'dist.permute' op constraint 3: expected a result of the operand's type}}
  %y = dist.permute %x by 1 over ["data"] : !x -> !y
  return
}

// -----

!x = tensor<8x4xf32>
func.func @permute_unknown(%x: !x) attributes {dist.partitioned = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'dist.permute' op constraint 2: the mesh has no axis "rows", or it is named twice}}
  %y = dist.permute %x by 1 over ["rows"] : !x -> !x
  return
}

// -----

!x = tensor<8x4xf32>

func.func @bucket_of_dims(%x: !x) attributes {dist.partitioned = #dist.mesh<"data" = 2>} {
  // expected-error @+1 {{'dist.all_gathers' op constraint 3: expected as many results and dims as operands, at least one}}
  %y = dist.all_gathers %x dims [0, 1] over ["data"] : (!x) -> tensor<16x4xf32>
  return
}

// -----

func.func @bucket_of_nothing() attributes {dist.partitioned = #dist.mesh<"data" = 2>} {
  // expected-error @+1 {{'dist.all_gathers' op constraint 3: expected as many results and dims as operands, at least one}}
  dist.all_gathers dims [] over ["data"] : () -> ()
  return
}

// -----

!x = tensor<8x4xf32>
!h = tensor<8x4xf16>

func.func @bucket_of_types(%x: !x, %h: !h) attributes {dist.partitioned = #dist.mesh<"data" = 2>} {
  // expected-error @+1 {{'dist.reduce_scatters' op constraint 3: expected operands of one element type}}
  %y:2 = dist.reduce_scatters sum dims [0, 0] over ["data"] %x, %h : (!x, !h) -> (tensor<4x4xf32>, tensor<4x4xf16>)
  return
}

// -----

!x = tensor<8x4xf32>

func.func @bucket_of_shapes(%x: !x) attributes {dist.partitioned = #dist.mesh<"data" = 2>} {
  // expected-error @+1 {{'dist.all_gathers' op constraint 4: expected a result of shape 'tensor<8x8xf32>', got 'tensor<16x4xf32>'}}
  %y:2 = dist.all_gathers %x, %x dims [0, 1] over ["data"] : (!x, !x) -> (tensor<16x4xf32>, tensor<16x4xf32>)
  return
}

// -----

!x = tensor<9x4xf32>

func.func @bucket_that_does_not_divide(%x: !x) attributes {dist.partitioned = #dist.mesh<"data" = 2>} {
  // expected-error @+1 {{'dist.reduce_scatters' op constraint 5: dimension 0 of 'tensor<9x4xf32>' does not divide into 2 parts}}
  %y = dist.reduce_scatters sum dims [0] over ["data"] %x : (!x) -> tensor<4x4xf32>
  return
}

// -----

!x = tensor<8x4xf32>

func.func @bucket_outside(%x: !x) {
  // expected-error @+1 {{'dist.all_gathers' op constraint 1: is not in a partitioned function ('dist.partitioned')}}
  %y = dist.all_gathers %x dims [0] over ["data"] : (!x) -> tensor<16x4xf32>
  return
}

// -----

!x = tensor<8x4xf32>

func.func @bucket_over_no_axis(%x: !x) attributes {dist.partitioned = #dist.mesh<"data" = 2>} {
  // expected-error @+1 {{'dist.reduce_scatters' op constraint 2: the mesh has no axis "rows", or it is named twice}}
  %y = dist.reduce_scatters sum dims [0] over ["rows"] %x : (!x) -> tensor<4x4xf32>
  return
}
