// RUN: divisi-opt %s --partition --split-input-file | FileCheck %s

#mesh = #dist.mesh<"data" = 2, "model" = 4>

// Every reshard becomes the collectives that it needs, types are one device's, and arguments remember the whole.
// CHECK-LABEL: func.func @reduce
// CHECK-SAME: %arg0: tensor<8x4xf32> {dist.global = tensor<8x16xf32, #dist.shard<_, "model">>},
// CHECK-SAME: %arg1: tensor<16x8xf32>,
// CHECK-SAME: %arg2: tensor<4x8xf32> {dist.global = tensor<16x8xf32, #dist.shard<"model", _>>})
// CHECK-SAME: -> (tensor<8x8xf32>, tensor<2x8xf32>, tensor<8xf32>)
// CHECK-SAME: attributes {dist.partitioned = #dist.mesh<"data" = 2, "model" = 4>}
// CHECK-NOT: dist.shard
func.func @reduce(%x: tensor<8x16xf32, #dist.shard<_, "model">>, %u: tensor<16x8xf32>,
    %w: tensor<16x8xf32, #dist.shard<"model", _>>) -> (tensor<8x8xf32>, tensor<8x8xf32, #dist.shard<"model", _>>,
    tensor<8xf32>) attributes {dist.mesh = #mesh} {
  // CHECK: %[[Y:.*]] = graph.matmul %arg0, %arg2 : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %y = graph.matmul %x, %w : (tensor<8x16xf32, #dist.shard<_, "model">>, tensor<16x8xf32, #dist.shard<"model", _>>)
      -> tensor<8x8xf32, #dist.shard<_, _, sum "model">>
  // CHECK: %[[A:.*]] = dist.all_reduce sum over ["model"] %[[Y]] : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %a = dist.reshard %y : tensor<8x8xf32, #dist.shard<_, _, sum "model">> -> tensor<8x8xf32>
  // CHECK: %[[S:.*]] = dist.reduce_scatter sum dim 0 over ["model"] %[[Y]] : tensor<8x8xf32> -> tensor<2x8xf32>
  %s = dist.reshard %y : tensor<8x8xf32, #dist.shard<_, _, sum "model">> -> tensor<8x8xf32, #dist.shard<"model", _>>
  // CHECK: %[[M:.*]] = graph.reduce_max %arg0 {dims = array<i64: 1>} : (tensor<8x4xf32>) -> tensor<8xf32>
  %m = graph.reduce_max %x {dims = array<i64: 1>} : (tensor<8x16xf32, #dist.shard<_, "model">>)
      -> tensor<8xf32, #dist.shard<_, max "model">>
  // CHECK: %[[N:.*]] = dist.all_reduce max over ["model"] %[[M]]
  %n = dist.reshard %m : tensor<8xf32, #dist.shard<_, max "model">> -> tensor<8xf32>
  // CHECK: return %[[A]], %[[S]], %[[N]]
  return %a, %s, %n : tensor<8x8xf32>, tensor<8x8xf32, #dist.shard<"model", _>>, tensor<8xf32>
}

// -----

#mesh = #dist.mesh<"data" = 2, "model" = 4>

// CHECK-LABEL: func.func @move
// CHECK-SAME: (%arg0: tensor<4x16xf32> {{.*}}, %arg1: tensor<8x4xf32> {{.*}}, %arg2: tensor<1x16xf32>
func.func @move(%x: tensor<8x16xf32, #dist.shard<"data", _>>, %y: tensor<8x16xf32, #dist.shard<_, "model">>,
    %z: tensor<8x16xf32, #dist.shard<"data" + "model", _>>) attributes {dist.mesh = #mesh} {
  // CHECK-NEXT: dist.all_gather %arg0 dim 0 over ["data"] : tensor<4x16xf32> -> tensor<8x16xf32>
  %0 = dist.reshard %x : tensor<8x16xf32, #dist.shard<"data", _>> -> tensor<8x16xf32>
  // CHECK-NEXT: dist.all_to_all %arg0 dim 0 to 1 over ["data"] : tensor<4x16xf32> -> tensor<8x8xf32>
  %1 = dist.reshard %x : tensor<8x16xf32, #dist.shard<"data", _>> -> tensor<8x16xf32, #dist.shard<_, "data">>
  // CHECK-NEXT: dist.all_to_all %arg1 dim 1 to 0 over ["model"] : tensor<8x4xf32> -> tensor<2x16xf32>
  %2 = dist.reshard %y : tensor<8x16xf32, #dist.shard<_, "model">> -> tensor<8x16xf32, #dist.shard<"model", _>>
  // Two axes of one dimension are one collective.
  // CHECK-NEXT: dist.all_gather %arg2 dim 0 over ["data", "model"] : tensor<1x16xf32> -> tensor<8x16xf32>
  %3 = dist.reshard %z : tensor<8x16xf32, #dist.shard<"data" + "model", _>> -> tensor<8x16xf32>
  // The minor axis alone.
  // CHECK-NEXT: dist.all_gather %arg2 dim 0 over ["model"] : tensor<1x16xf32> -> tensor<4x16xf32>
  %4 = dist.reshard %z : tensor<8x16xf32, #dist.shard<"data" + "model", _>>
      -> tensor<8x16xf32, #dist.shard<"data", _>>
  // CHECK-NEXT: dist.all_to_all %arg2 dim 0 to 1 over ["model"] : tensor<1x16xf32> -> tensor<4x4xf32>
  %5 = dist.reshard %z : tensor<8x16xf32, #dist.shard<"data" + "model", _>>
      -> tensor<8x16xf32, #dist.shard<"data", "model">>
  // CHECK-NEXT: return
  return
}

// -----

#mesh = #dist.mesh<"data" = 2, "model" = 4>

// One's own piece: rows index * size and on; the index of an axis is an argument, added once.
// CHECK-LABEL: func.func @slice
// CHECK-SAME: (%arg0: tensor<8x16xf32>, %arg1: tensor<i64> {graph.scalar = "axis_index.model"},
// CHECK-SAME: %arg2: tensor<i64> {graph.scalar = "axis_index.data"}) -> (tensor<2x16xf32>, tensor<8x2xf32>)
func.func @slice(%x: tensor<8x16xf32>) -> (tensor<8x16xf32, #dist.shard<"model", _>>,
    tensor<8x16xf32, #dist.shard<_, "data" + "model">>) attributes {dist.mesh = #mesh} {
  // CHECK: %[[TWO:.*]] = graph.constant dense<2> : tensor<i64>
  // CHECK: %[[FIRST:.*]] = graph.mul %arg1, %[[TWO]] : tensor<i64>
  // CHECK-DAG: %[[I:.*]] = graph.iota {dim = 0 : i64} : tensor<2xi64>
  // CHECK-DAG: %[[B:.*]] = graph.broadcast %[[FIRST]]
  // CHECK: %[[ROWS:.*]] = graph.add %[[I]], %[[B]] : tensor<2xi64>
  // CHECK: %[[P:.*]] = graph.gather %arg0, %[[ROWS]] {dim = 0 : i64} : {{.*}} -> tensor<2x16xf32>
  %0 = dist.reshard %x : tensor<8x16xf32> -> tensor<8x16xf32, #dist.shard<"model", _>>
  // CHECK: %[[FOUR:.*]] = graph.constant dense<4> : tensor<i64>
  // CHECK: %[[D:.*]] = graph.mul %arg2, %[[FOUR]]
  // CHECK: graph.add %[[D]], %arg1 : tensor<i64>
  // CHECK: %[[Q:.*]] = graph.gather %arg0, %{{.*}} {dim = 1 : i64} : {{.*}} -> tensor<8x2xf32>
  %1 = dist.reshard %x : tensor<8x16xf32> -> tensor<8x16xf32, #dist.shard<_, "data" + "model">>
  // CHECK: return %[[P]], %[[Q]]
  return %0, %1 : tensor<8x16xf32, #dist.shard<"model", _>>, tensor<8x16xf32, #dist.shard<_, "data" + "model">>
}

// -----

#mesh = #dist.mesh<"data" = 2, "model" = 4>

// Several steps: what scatters makes smaller comes first, axes that are both reduced travel together.
// CHECK-LABEL: func.func @several_steps
func.func @several_steps(%x: tensor<8x16xf32, #dist.shard<"data", "model">>,
    %y: tensor<8x16xf32, #dist.shard<"data" + "model", _>>) attributes {dist.mesh = #mesh} {
  // CHECK: %[[C:.*]] = graph.constant dense<0.000000e+00> : tensor<8x8xf32>
  %c = graph.constant dense<0.0> : tensor<8x8xf32, #dist.shard<_, _, sum "data" + "model">>
  // CHECK: %[[A:.*]] = dist.reduce_scatter sum dim 0 over ["data"] %[[C]] : tensor<8x8xf32> -> tensor<4x8xf32>
  // CHECK-NEXT: dist.all_reduce sum over ["model"] %[[A]] : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %0 = dist.reshard %c : tensor<8x8xf32, #dist.shard<_, _, sum "data" + "model">>
      -> tensor<8x8xf32, #dist.shard<"data", _>>
  // CHECK-NEXT: dist.all_reduce sum over ["data", "model"] %[[C]] : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = dist.reshard %c : tensor<8x8xf32, #dist.shard<_, _, sum "data" + "model">> -> tensor<8x8xf32>
  // One axis stays pending.
  // CHECK-NEXT: dist.all_reduce sum over ["model"] %[[C]] : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = dist.reshard %c : tensor<8x8xf32, #dist.shard<_, _, sum "data" + "model">>
      -> tensor<8x8xf32, #dist.shard<_, _, sum "data">>
  // Transposed pieces: gathered along one dimension, then exchanged.
  // CHECK: %[[G:.*]] = dist.all_gather %arg0 dim 0 over ["data"]
  // CHECK-NEXT: %[[T:.*]] = dist.all_to_all %[[G]] dim 1 to 0 over ["model"] : tensor<8x4xf32> -> tensor<2x16xf32>
  %3 = dist.reshard %x : tensor<8x16xf32, #dist.shard<"data", "model">>
      -> tensor<8x16xf32, #dist.shard<"model", "data">>
  // Another order of the axes: other pieces.
  // CHECK: dist.all_gather %arg1 dim 0 over ["data", "model"] : tensor<1x16xf32> -> tensor<8x16xf32>
  // CHECK: graph.gather {{.*}} -> tensor<1x16xf32>
  %4 = dist.reshard %y : tensor<8x16xf32, #dist.shard<"data" + "model", _>>
      -> tensor<8x16xf32, #dist.shard<"model" + "data", _>>
  return
}

// -----

#mesh = #dist.mesh<"data" = 2, "model" = 4>

// Operations that know their place.
// CHECK-LABEL: func.func @places
// CHECK-SAME: %[[S:arg[0-9]+]]: tensor<i64>
// CHECK-SAME: graph.scalar = "axis_index.
func.func @places(%s: tensor<i64>) attributes {dist.mesh = #mesh} {
  // CHECK: %[[I:.*]] = graph.iota {dim = 0 : i64} : tensor<2x4xi64>
  // CHECK: graph.add %[[I]], %{{.*}} : tensor<2x4xi64>
  %0 = graph.iota {dim = 0 : i64} : tensor<8x4xi64, #dist.shard<"model", _>>
  // Along the other dimension all pieces are alike.
  // CHECK: graph.iota {dim = 1 : i64} : tensor<2x4xi64>
  // CHECK-NOT: graph.add
  %1 = graph.iota {dim = 1 : i64} : tensor<8x4xi64, #dist.shard<"model", _>>
  // CHECK: graph.constant dense<3.000000e+00> : tensor<2x4xf32>
  %2 = graph.constant dense<3.0> : tensor<8x4xf32, #dist.shard<"model", _>>
  // A device draws the numbers that it would draw in the whole.
  // CHECK: graph.random_uniform %[[S]], %[[S]], %{{.*}} {stream = 7 : i64, strides = array<i64: 4, 1>}
  // CHECK-SAME: -> tensor<2x2xf32>
  %3 = graph.random_uniform %s, %s {stream = 7 : i64} : (tensor<i64>, tensor<i64>)
      -> tensor<8x4xf32, #dist.shard<"model", "data">>
  return
}

// -----

#mesh = #dist.mesh<"data" = 2, "model" = 4>

// Rows of other devices are zeros in a pending sum; writes to them fall away.
// CHECK-LABEL: func.func @table
// CHECK-SAME: %arg0: tensor<4x8xf32>
// CHECK-SAME: %arg1: tensor<3xi64>
// CHECK-SAME: %arg2: tensor<i64> {graph.scalar = "axis_index.model"}
func.func @table(%t: tensor<16x8xf32, #dist.shard<"model", _>>, %i: tensor<6xi64, #dist.shard<"data">>)
    attributes {dist.mesh = #mesh} {
  // CHECK: %[[FOUR:.*]] = graph.constant dense<4> : tensor<i64>
  // CHECK: %[[FIRST:.*]] = graph.mul %arg2, %[[FOUR]]
  // CHECK: %[[B:.*]] = graph.broadcast %[[FIRST]] {{.*}} -> tensor<3xi64>
  // CHECK: %[[L:.*]] = graph.sub %arg1, %[[B]] : tensor<3xi64>
  // CHECK: %[[R:.*]] = graph.gather %arg0, %[[L]] {dim = 0 : i64} : {{.*}} -> tensor<3x8xf32>
  // CHECK: %[[Z:.*]] = graph.select %{{.*}}, %[[R]], %{{.*}} -> tensor<3x8xf32>
  // CHECK: dist.all_reduce sum over ["model"] %[[Z]] : (tensor<3x8xf32>) -> tensor<3x8xf32>
  %0 = graph.gather %t, %i {dim = 0 : i64} : (tensor<16x8xf32, #dist.shard<"model", _>>,
      tensor<6xi64, #dist.shard<"data">>) -> tensor<6x8xf32, #dist.shard<"data", _, sum "model">>
  %1 = dist.reshard %0 : tensor<6x8xf32, #dist.shard<"data", _, sum "model">>
      -> tensor<6x8xf32, #dist.shard<"data", _>>
  %z = graph.constant dense<0.0> : tensor<16x8xf32, #dist.shard<"model", _, sum "data">>
  // CHECK: graph.scatter_add %{{.*}}, %{{.*}}, %{{.*}} {dim = 0 : i64}
  // CHECK-SAME: (tensor<4x8xf32>, tensor<3xi64>, tensor<3x8xf32>) -> tensor<4x8xf32>
  %2 = graph.scatter_add %z, %i, %1 {dim = 0 : i64} : (tensor<16x8xf32, #dist.shard<"model", _, sum "data">>,
      tensor<6xi64, #dist.shard<"data">>, tensor<6x8xf32, #dist.shard<"data", _>>)
      -> tensor<16x8xf32, #dist.shard<"model", _, sum "data">>
  return
}

// -----

// A device has its own groups of a convolution.
// CHECK-LABEL: func.func @groups
// CHECK: graph.conv %arg0, %arg1 {{.*}}groups = 2 : i64{{.*}} -> tensor<4x4x6x6xf32>
// CHECK: graph.conv_input_grad {{.*}}groups = 2 : i64{{.*}} -> tensor<4x8x6x6xf32>
// CHECK: graph.conv_filter_grad {{.*}}groups = 2 : i64{{.*}} -> tensor<4x4x3x3xf32>
!x = tensor<8x16x6x6xf32, #dist.shard<"data", "model", _, _>>
!y = tensor<8x8x6x6xf32, #dist.shard<"data", "model", _, _>>
!f = tensor<8x4x3x3xf32, #dist.shard<"model", _, _, _>>
func.func @groups(%x: !x, %f: !f) attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 2>} {
  %y = graph.conv %x, %f {dilations = array<i64: 1, 1>, groups = 4 : i64, pads_high = array<i64: 1, 1>,
      pads_low = array<i64: 1, 1>, strides = array<i64: 1, 1>} : (!x, !f) -> !y
  %0 = graph.conv_input_grad %y, %f {dilations = array<i64: 1, 1>, groups = 4 : i64, pads_high = array<i64: 1, 1>,
      pads_low = array<i64: 1, 1>, strides = array<i64: 1, 1>} : (!y, !f) -> !x
  %1 = graph.conv_filter_grad %x, %y {dilations = array<i64: 1, 1>, groups = 4 : i64, pads_high = array<i64: 1, 1>,
      pads_low = array<i64: 1, 1>, strides = array<i64: 1, 1>} : (!x, !y)
      -> tensor<8x4x3x3xf32, #dist.shard<"model", _, _, _, sum "data">>
  return
}

// -----

// A function without a mesh stays as it is.
// CHECK-LABEL: func.func @alone
// CHECK-SAME: (%arg0: tensor<8xf32>) -> tensor<8xf32> {
func.func @alone(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}
