// RUN: divisi-opt %s --split-input-file --verify-diagnostics

// A reshard cannot undo a sum.
!x = tensor<8x8xf32, #dist.shard<"data", _>>
!y = tensor<8x8xf32, #dist.shard<"data", _, sum "model">>
func.func @new_pending(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'dist.reshard' op constraint 4: cannot make a value pending over "model"}}
  %y = dist.reshard %x : !x -> !y
  return
}

// -----

!x = tensor<8xf32, #dist.shard<_, sum "data">>
!y = tensor<8xf32, #dist.shard<_, sum "data" + "model">>
func.func @more_pending() attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  %x = graph.constant dense<0.0> : !x
  // expected-error @+1 {{'dist.reshard' op constraint 4: cannot make a value pending over "model"}}
  %y = dist.reshard %x : !x -> !y
  return
}

// -----

!x = tensor<8xf32, #dist.shard<_, sum "data">>
!y = tensor<8xf32, #dist.shard<_, max "data">>
func.func @other_kind() attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  %x = graph.constant dense<0.0> : !x
  // expected-error @+1 {{'dist.reshard' op constraint 4: cannot make a value pending over "data"}}
  %y = dist.reshard %x : !x -> !y
  return
}

// -----

!x = tensor<8x8xf32, #dist.shard<"data", _>>
!y = tensor<8x4xf32, #dist.shard<"data", _>>
func.func @other_shape(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error-re @+1 {{constraint 1: changes more than the sharding: 'tensor<8x8xf32, {{.*}}' to 'tensor<8x4xf32, {{.*}}'}}
  %y = dist.reshard %x : !x -> !y
  return
}

// -----

!x = tensor<8x8xf32, #dist.shard<"data", _>>
!y = tensor<64xf32, #dist.shard<"data">>
func.func @other_rank(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error-re @+1 {{constraint 1: changes more than the sharding: 'tensor<8x8xf32, {{.*}}' to 'tensor<64xf32, {{.*}}'}}
  %y = dist.reshard %x : !x -> !y
  return
}

// -----

!x = tensor<8x8xf32, #dist.shard<"data", _>>
!y = tensor<8x8xf16>
func.func @other_element(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error-re @+1 {{constraint 1: changes more than the sharding: 'tensor<8x8xf32, {{.*}}' to 'tensor<8x8xf16>'}}
  %y = dist.reshard %x : !x -> !y
  return
}

// -----

!x = tensor<8x8xf32, #dist.shard<"data", _>>
!y = tensor<8x8xf32, #dist.shard<"pipeline", _>>
func.func @to_unknown_axis(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'dist.reshard' op constraint 3: the mesh has no axis "pipeline"}}
  %y = dist.reshard %x : !x -> !y
  return
}

// -----

!x = tensor<6x8xf32, #dist.shard<"data", _>>
!y = tensor<6x8xf32, #dist.shard<"model", _>>
func.func @to_uneven(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'dist.reshard' op constraint 3: dimension 0 of size 6 does not divide into 4 parts over "model"}}
  %y = dist.reshard %x : !x -> !y
  return
}

// -----

!x = tensor<8x8xf32>
!y = tensor<8x8xf32, #dist.shard<"data", _>>
func.func @reshard_outside(%x: !x) {
  // expected-error @+1 {{'dist.reshard' op constraint 2: is not in a function with a mesh ('dist.mesh')}}
  %y = dist.reshard %x : !x -> !y
  return
}

// -----

!x = tensor<8x8xf32>
func.func @reshard_partitioned(%x: !x) attributes {dist.partitioned = #dist.mesh<"data" = 2>} {
  // expected-error @+1 {{'dist.reshard' op constraint 2: is not in a function with a mesh ('dist.mesh')}}
  %y = dist.reshard %x : !x -> !x
  return
}

// -----

!x = tensor<8xf32, #dist.shard<"data">>
func.func @sharded_outside(%x: !x) {
  // expected-error @+1 {{'graph.relu' op has sharded types, but is not in a function with a mesh ('dist.mesh')}}
  %y = graph.relu %x : !x
  return
}

// -----

!x = tensor<8xf32, #dist.shard<"data">>
func.func @sharded_in_partitioned() attributes {dist.partitioned = #dist.mesh<"data" = 2>} {
  // expected-error @+1 {{'graph.constant' op has sharded types, but is not in a function with a mesh ('dist.mesh')}}
  %y = graph.constant dense<0.0> : !x
  return
}

// -----

// Functions.
!x = tensor<8xf32, #dist.shard<_, sum "data">>
// expected-error @+1 {{'func.func' op argument #0 may not be pending: 'tensor<8xf32, #dist.shard<_, sum "data">>'}}
func.func @pending_argument(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  return
}

// -----

!z = tensor<i64>
!x = tensor<f32, #dist.shard<max "model">>
// expected-error @+1 {{'func.func' op argument #1 may not be pending: 'tensor<f32, #dist.shard<max "model">>'}}
func.func @pending_scalar_argument(%z: !z, %x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  return
}

// -----

!x = tensor<8xf32, #dist.shard<"pipeline">>
// expected-error @+1 {{'func.func' op argument #0: the mesh has no axis "pipeline"}}
func.func @argument_over_unknown_axis(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  return
}

// -----

!x = tensor<63x8xf32, #dist.shard<"data", _>>
// expected-error @+1 {{'func.func' op argument #0: dimension 0 of size 63 does not divide into 2 parts over "data"}}
func.func @uneven_argument(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  return
}

// -----

!x = tensor<63x8xf32, #dist.shard<"data", _>>
// expected-error @+1 {{'func.func' op argument #0: dimension 0 of size 63 does not divide into 4 parts over "data"}}
func.func @batch_of_63(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 4>} {
  return
}

// -----

!x = tensor<63xf32, #dist.shard<"data">>
// expected-error @+1 {{'func.func' op argument #0: dimension 0 of size 63 does not divide into 2 parts over "data"}}
func.func private @uneven_declared(!x) attributes {dist.mesh = #dist.mesh<"data" = 2>}

// -----

!x = tensor<8xf32, #dist.shard<"data">>
func.func @return_type(%x: !x) -> tensor<8xf32> attributes {dist.mesh = #dist.mesh<"data" = 2>} {
  // expected-error-re @+1 {{return operand 0 ('tensor<8xf32, {{.*}}') {{.*}}result type ('tensor<8xf32>')}}
  return %x : !x
}

// -----

// A function's results are final.
!x = tensor<8xf32, #dist.shard<_, sum "data">>
// expected-error @+1 {{'func.func' op returns a value that is pending: 'tensor<8xf32, #dist.shard<_, sum "data">>'}}
func.func @pending_result() -> !x attributes {dist.mesh = #dist.mesh<"data" = 2>} {
  %x = graph.constant dense<0.0> : !x
  return %x : !x
}

// -----

!z = tensor<8xf32, #dist.shard<"data">>
!x = tensor<f32, #dist.shard<max "model">>
// expected-error @+1 {{'func.func' op returns a value that is pending: 'tensor<f32, #dist.shard<max "model">>'}}
func.func @pending_second_result(%z: !z) -> (!z, !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  %x = graph.constant dense<0.0> : !x
  return %z, %x : !z, !x
}

// -----

// Dynamic sizes do not divide.
!x = tensor<?x8xf32, #dist.shard<"data", _>>
// expected-error-re @+1 {{'func.func' op argument #0: the size of a sharded tensor must be known: 'tensor<?x8xf32, {{.*}}>'}}
func.func @dynamic_argument(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2>} {
  return
}

// -----

// Nor where another dimension is split.
!x = tensor<?x8xf32, #dist.shard<_, "data">>
// expected-error-re @+1 {{'func.func' op argument #0: the size of a sharded tensor must be known: 'tensor<?x8xf32, {{.*}}>'}}
func.func private @dynamic_declared(!x) attributes {dist.mesh = #dist.mesh<"data" = 2>}

// -----

!x = tensor<?xf32, #dist.shard<"data">>
func.func @dynamic_result(%x: tensor<?xf32>) attributes {dist.mesh = #dist.mesh<"data" = 2>} {
  // expected-error-re @+1 {{'dist.reshard' op constraint 3: the size of a sharded tensor must be known: 'tensor<?xf32, {{.*}}>'}}
  %y = dist.reshard %x : tensor<?xf32> -> !x
  return
}

// -----

// Operations without a sharding rule.
!x = tensor<8xf32, #dist.shard<"data">>
func.func private @other(!x) -> !x
func.func @foreign_call(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2>} {
  // expected-error @+1 {{'func.call' op meets a sharded tensor, but has no sharding rule}}
  %y = call @other(%x) : (!x) -> !x
  return
}

// -----

!x = tensor<8xf32, #dist.shard<"data">>
func.func @foreign_arith(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'arith.addf' op meets a sharded tensor, but has no sharding rule}}
  %y = arith.addf %x, %x : !x
  return
}

// -----

!x = tensor<8xf32, #dist.shard<"data">>
func.func @foreign_math(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'math.exp' op meets a sharded tensor, but has no sharding rule}}
  %y = math.exp %x : !x
  return
}

// -----

!x = tensor<8xf32, #dist.shard<"data">>
func.func @foreign_constant() attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'arith.constant' op meets a sharded tensor, but has no sharding rule}}
  %y = arith.constant dense<0.0> : !x
  return
}

// -----

!x = tensor<8xf32, #dist.shard<"data">>
func.func @foreign_exec(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'exec.copy' op meets a sharded tensor, but has no sharding rule}}
  %y = exec.copy %x : (!x) -> !x
  return
}

// -----

!x = tensor<8xf32, #dist.shard<"data">>
func.func @foreign_kernel(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'exec.kernel' op meets a sharded tensor, but has no sharding rule}}
  %y = exec.kernel rows 8 (%x) : (!x) -> !x {
  ^bb0(%a: !x):
    %b = graph.relu %a {exec.stage} : !x
    exec.yield %b : !x
  }
  return
}

// -----

!x = tensor<8xf32, #dist.shard<"data">>
func.func @loop(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  %c = arith.constant 1 : index
  // expected-error @+1 {{'scf.for' op meets a sharded tensor, but has no sharding rule}}
  %y = scf.for %i = %c to %c step %c iter_args(%a = %x) -> (!x) {
    %b = graph.relu %a : !x
    scf.yield %b : !x
  }
  return
}

// -----

!x = tensor<8xf32>
func.func @collective_in_planned(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'dist.all_reduce' op constraint 1: is not in a partitioned function ('dist.partitioned')}}
  %y = dist.all_reduce sum over ["data"] %x : (!x) -> !x
  return
}

// -----

!x = tensor<8xf32, #dist.shard<"data">>
func.func @collective_on_sharded(%x: !x) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>} {
  // expected-error @+1 {{'dist.all_reduce' op meets a sharded tensor, but has no sharding rule}}
  %y = dist.all_reduce sum over ["data"] %x : (!x) -> !x
  return
}

// -----

// The mesh of a function.
// expected-error @+1 {{'func.func' op 'dist.mesh' must be a #dist.mesh, got "data=2"}}
func.func @mesh_text() attributes {dist.mesh = "data=2"} {
  return
}

// -----

// expected-error @+1 {{'func.func' op 'dist.partitioned' must be a #dist.mesh, got 4 : i64}}
func.func @partitioned_text() attributes {dist.partitioned = 4 : i64} {
  return
}

// -----

// expected-error @+1 {{'func.func' op unknown attribute 'dist.plan'}}
func.func @unknown_attribute() attributes {dist.plan = unit} {
  return
}

// -----

// expected-error @+1 {{'func.func' op is planned or partitioned, not both}}
func.func @planned_and_partitioned() attributes {dist.mesh = #dist.mesh<"data" = 2>, dist.partitioned = #dist.mesh<"data" = 2>} {
  return
}

// -----

// expected-error @+1 {{'func.func' op 'dist.mesh' belongs on a function of one block}}
func.func @two_blocks() attributes {dist.mesh = #dist.mesh<"data" = 2>} {
  cf.br ^bb1
^bb1:
  return
}

// -----

// expected-error @+1 {{'builtin.module' op 'dist.mesh' belongs on a function}}
module attributes {dist.mesh = #dist.mesh<"data" = 2>} {
}

// -----

func.func @mesh_on_operation(%x: tensor<8xf32>) {
  // expected-error @+1 {{'graph.relu' op 'dist.mesh' belongs on a function}}
  %y = graph.relu %x {dist.mesh = #dist.mesh<"data" = 2>} : tensor<8xf32>
  return
}
