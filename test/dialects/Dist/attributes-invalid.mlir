// RUN: divisi-opt %s --split-input-file --verify-diagnostics

// Meshes.
// expected-error @+1 {{a mesh needs at least one axis, each with a size}}
func.func @no_axes() attributes {dist.mesh = #dist.mesh<>} {
  return
}

// -----

// expected-error @+1 {{a mesh has at most 7 axes, got 8}}
#mesh = #dist.mesh<"a" = 1, "b" = 1, "c" = 1, "d" = 1, "e" = 1, "f" = 1, "g" = 1, "h" = 1>

// -----

// expected-error @+1 {{axis "data" of the mesh is repeated or has no name}}
func.func @repeated() attributes {dist.mesh = #dist.mesh<"data" = 2, "data" = 4>} {
  return
}

// -----

// expected-error @+1 {{axis "" of the mesh is repeated or has no name}}
func.func @nameless() attributes {dist.mesh = #dist.mesh<"" = 2>} {
  return
}

// -----

// expected-error @+1 {{axis "data" of the mesh has the size 0, expected 1 to 1048576 devices in all}}
func.func @size_zero() attributes {dist.mesh = #dist.mesh<"data" = 0>} {
  return
}

// -----

// expected-error @+1 {{axis "model" of the mesh has the size -4, expected 1 to 1048576 devices in all}}
func.func @negative() attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = -4>} {
  return
}

// -----

// expected-error @+1 {{axis "data" of the mesh has the size 1048577, expected 1 to 1048576 devices in all}}
func.func @huge() attributes {dist.mesh = #dist.mesh<"data" = 1048577>} {
  return
}

// -----

// expected-error @+1 {{axis "b" of the mesh has the size 2048, expected 1 to 1048576 devices in all}}
func.func @huge_product() attributes {dist.mesh = #dist.mesh<"a" = 2048, "b" = 2048>} {
  return
}

// -----

// expected-error @+1 {{axis "a" of the mesh has the size 4611686018427387904, expected 1 to 1048576 devices in all}}
func.func @overflow() attributes {dist.mesh = #dist.mesh<"a" = 4611686018427387904, "b" = 4>} {
  return
}

// -----

// expected-error @+1 {{expected '='}}
func.func @without_size() attributes {dist.mesh = #dist.mesh<"data">} {
  return
}

// -----

// expected-error @+1 {{expected string}}
func.func @bare_name() attributes {dist.mesh = #dist.mesh<data = 2>} {
  return
}

// -----

// expected-error @+1 {{expected integer value}}
func.func @size_text() attributes {dist.mesh = #dist.mesh<"data" = "two">} {
  return
}

// -----

// expected-error @+2 {{expected '<'}}
// expected-error @+1 {{a mesh needs at least one axis, each with a size}}
func.func @none() attributes {dist.mesh = #dist.mesh} {
  return
}

// -----

// Shardings.
// expected-error @+1 {{a replicated tensor has no sharding: leave it out}}
func.func private @replicated(tensor<8x8xf32, #dist.shard<_, _>>)

// -----

// expected-error @+1 {{a replicated tensor has no sharding: leave it out}}
func.func private @replicated_scalar(tensor<f32, #dist.shard<>>)

// -----

// expected-error @+1 {{sharding of 1 dimensions on a tensor of rank 2}}
func.func private @rank_less(tensor<8x8xf32, #dist.shard<"data">>)

// -----

// expected-error @+1 {{sharding of 2 dimensions on a tensor of rank 1}}
func.func private @rank_more(tensor<8xf32, #dist.shard<_, "data">>)

// -----

// expected-error @+1 {{sharding of 1 dimensions on a tensor of rank 0}}
func.func private @scalar_split(tensor<f32, #dist.shard<"data">>)

// -----

// expected-error @+1 {{sharding of 0 dimensions on a tensor of rank 1}}
func.func private @vector_scalar_pending(tensor<8xf32, #dist.shard<sum "data">>)

// -----

// expected-error @+1 {{axis "data" is used twice in one sharding}}
func.func private @axis_twice(tensor<8x8xf32, #dist.shard<"data", "data">>)

// -----

// expected-error @+1 {{axis "data" is used twice in one sharding}}
func.func private @axis_twice_in_dim(tensor<8xf32, #dist.shard<"data" + "data">>)

// -----

// expected-error @+1 {{axis "data" is used twice in one sharding}}
func.func private @split_and_pending(tensor<8xf32, #dist.shard<"data", sum "data">>)

// -----

// expected-error @+1 {{axis "data" is used twice in one sharding}}
func.func private @pending_twice(tensor<8xf32, #dist.shard<_, sum "data" + "data">>)

// -----

// expected-error @+1 {{pending axes must be in alphabetical order: one sharding, one spelling}}
func.func private @order(tensor<8xf32, #dist.shard<_, sum "model" + "data">>)

// -----

// expected-error @+1 {{the pending reduction comes last}}
func.func private @pending_first(tensor<8xf32, #dist.shard<sum "model", "data">>)

// -----

// expected-error @+1 {{the pending reduction comes last}}
func.func private @two_reductions(tensor<8xf32, #dist.shard<_, sum "data", max "model">>)

// -----

// expected-error @+1 {{expected '_', an axis, or a reduction, got 'prod'}}
func.func private @unknown_reduction(tensor<8xf32, #dist.shard<_, prod "data">>)

// -----

// expected-error @+1 {{expected string}}
func.func private @number(tensor<8xf32, #dist.shard<4>>)

// -----

// expected-error @+1 {{expected '_', an axis, or a reduction, got 'data'}}
func.func private @bare_axis(tensor<8xf32, #dist.shard<data>>)

// -----

// expected-error @+1 {{expected string}}
func.func private @no_axis(tensor<8xf32, #dist.shard<_, sum>>)

// -----

// expected-error @+1 {{expected string}}
func.func private @plus_nothing(tensor<8xf32, #dist.shard<"data" + >>)

// -----

// expected-error @+1 {{expected string}}
func.func private @underscore_in_sum(tensor<8xf32, #dist.shard<_, sum _>>)

// -----

// expected-error @+1 {{expected string}}
func.func private @plus_underscore(tensor<8xf32, #dist.shard<"data" + _>>)

// -----

// expected-error @+1 {{expected '>'}}
func.func private @underscore_plus(tensor<8xf32, #dist.shard<_ + "data">>)
