// RUN: divisi-opt %s | divisi-opt | FileCheck %s
// RUN: divisi-opt %s -o %t.mlir && divisi-opt %t.mlir | diff - %t.mlir
// RUN: divisi-opt %s | divisi-opt --mlir-print-op-generic | divisi-opt | FileCheck %s

// An alias describes its attribute; `$` joins axes of one dimension.
// CHECK-DAG: #_-data$model = #dist.shard<_, "data" + "model">
// CHECK-DAG: #_-model = #dist.shard<_, "model">
// CHECK-DAG: #_-model-sum-data = #dist.shard<_, "model", sum "data">
// CHECK-DAG: #_-_-sum-data$model = #dist.shard<_, _, sum "data" + "model">
// CHECK-DAG: #data-_ = #dist.shard<"data", _>
// CHECK-DAG: #data-max-model = #dist.shard<"data", max "model">
// CHECK-DAG: #_-min-model = #dist.shard<_, min "model">
// CHECK-DAG: #model$data-_ = #dist.shard<"model" + "data", _>
// CHECK-DAG: #sum-model = #dist.shard<sum "model">

#mesh = #dist.mesh<"data" = 2, "model" = 4>
!rows = tensor<8x16xf32, #dist.shard<"data", _>>
!columns = tensor<8x16xf32, #dist.shard<_, "model">>

// CHECK-LABEL: func.func @matmul
// CHECK-SAME: (%arg0: tensor<8x16xf32, #data-_>, %arg1: tensor<16x8xf32, #_-model>)
// CHECK-SAME: attributes {dist.mesh = #dist.mesh<"data" = 2, "model" = 4>}
func.func @matmul(%x: !rows, %w: tensor<16x8xf32, #dist.shard<_, "model">>) attributes {dist.mesh = #mesh} {
  // CHECK: graph.matmul %arg0, %arg1 : (tensor<8x16xf32, #data-_>, tensor<16x8xf32, #_-model>)
  // CHECK-SAME: -> tensor<8x8xf32, #data-model>
  %y = graph.matmul %x, %w : (!rows, tensor<16x8xf32, #dist.shard<_, "model">>)
      -> tensor<8x8xf32, #dist.shard<"data", "model">>
  // CHECK: graph.matmul {{.*}} {transpose_lhs} {{.*}} -> tensor<16x8xf32, #_-model-sum-data>
  %g = graph.matmul %x, %y {transpose_lhs} : (!rows, tensor<8x8xf32, #dist.shard<"data", "model">>)
      -> tensor<16x8xf32, #dist.shard<_, "model", sum "data">>
  // CHECK: dist.reshard %{{.*}} : tensor<16x8xf32, #_-model-sum-data> -> tensor<16x8xf32, #_-model>
  %r = dist.reshard %g : tensor<16x8xf32, #dist.shard<_, "model", sum "data">>
      -> tensor<16x8xf32, #dist.shard<_, "model">>
  return
}

// A matmul is linear in the operand that is pending, and a sum in all of them.
// CHECK-LABEL: func.func @linear
func.func @linear(%x: !rows, %v: !rows, %w: tensor<16x4xf32>) attributes {dist.mesh = #mesh} {
  %p = graph.constant dense<0.0> : tensor<8x16xf32, #dist.shard<"data", _, sum "model">>
  // CHECK: graph.matmul {{.*}} -> tensor<8x4xf32, #data-_-sum-model>
  %0 = graph.matmul %p, %w : (tensor<8x16xf32, #dist.shard<"data", _, sum "model">>, tensor<16x4xf32>)
      -> tensor<8x4xf32, #dist.shard<"data", _, sum "model">>
  // CHECK: graph.add %{{.*}}, %{{.*}} : tensor<8x4xf32, #data-_-sum-model>
  %1 = graph.add %0, %0 : tensor<8x4xf32, #dist.shard<"data", _, sum "model">>
  // CHECK: graph.neg %{{.*}} : tensor<8x4xf32, #data-_-sum-model>
  %2 = graph.neg %1 : tensor<8x4xf32, #dist.shard<"data", _, sum "model">>
  // CHECK: graph.reduce_sum {{.*}} -> tensor<f32, #sum-data$model>
  %3 = graph.reduce_sum %2 {dims = array<i64: 0, 1>} : (tensor<8x4xf32, #dist.shard<"data", _, sum "model">>)
      -> tensor<f32, #dist.shard<sum "data" + "model">>
  // CHECK: dist.reshard {{.*}} -> tensor<f32, #sum-model>
  %4 = dist.reshard %3 : tensor<f32, #dist.shard<sum "data" + "model">> -> tensor<f32, #dist.shard<sum "model">>
  // CHECK: dist.reshard {{.*}} : tensor<f32, #sum-model> -> tensor<f32>
  %5 = dist.reshard %4 : tensor<f32, #dist.shard<sum "model">> -> tensor<f32>
  return
}

// Operations that move elements commute with every reduction.
// CHECK-LABEL: func.func @movement
func.func @movement(%x: tensor<8x16xf32, #dist.shard<"data", "model">>) attributes {dist.mesh = #mesh} {
  // CHECK: graph.reduce_max {{.*}} -> tensor<8xf32, #data-max-model>
  %0 = graph.reduce_max %x {dims = array<i64: 1>} : (tensor<8x16xf32, #dist.shard<"data", "model">>)
      -> tensor<8xf32, #dist.shard<"data", max "model">>
  // CHECK: graph.broadcast {{.*}} -> tensor<8x4xf32, #data-_-max-model>
  %1 = graph.broadcast %0 {dims = array<i64: 0>} : (tensor<8xf32, #dist.shard<"data", max "model">>)
      -> tensor<8x4xf32, #dist.shard<"data", _, max "model">>
  // CHECK: graph.transpose {{.*}} -> tensor<4x8xf32, #_-data-max-model>
  %2 = graph.transpose %1 {permutation = array<i64: 1, 0>} : (tensor<8x4xf32, #dist.shard<"data", _, max "model">>)
      -> tensor<4x8xf32, #dist.shard<_, "data", max "model">>
  // CHECK: graph.concat {{.*}} -> tensor<8x8xf32, #_-data-max-model>
  %3 = graph.concat %2, %2 {dim = 0 : i64} : (tensor<4x8xf32, #dist.shard<_, "data", max "model">>,
      tensor<4x8xf32, #dist.shard<_, "data", max "model">>) -> tensor<8x8xf32, #dist.shard<_, "data", max "model">>
  // CHECK: graph.reshape {{.*}} -> tensor<8x2x4xf32, #_-data-_-max-model>
  %4 = graph.reshape %3 : (tensor<8x8xf32, #dist.shard<_, "data", max "model">>)
      -> tensor<8x2x4xf32, #dist.shard<_, "data", _, max "model">>
  // CHECK: dist.reshard {{.*}} -> tensor<8xf32, #data>
  %5 = dist.reshard %0 : tensor<8xf32, #dist.shard<"data", max "model">> -> tensor<8xf32, #dist.shard<"data">>
  return
}

// CHECK-LABEL: func.func @minimum
func.func @minimum(%x: !columns) attributes {dist.mesh = #mesh} {
  // CHECK: graph.reduce_min {{.*}} -> tensor<8xf32, #_-min-model>
  %0 = graph.reduce_min %x {dims = array<i64: 1>} : (!columns) -> tensor<8xf32, #dist.shard<_, min "model">>
  return
}

// Axes of one dimension, major to minor: the order matters.
// CHECK-LABEL: func.func @several_axes
func.func @several_axes(%x: !rows) attributes {dist.mesh = #mesh} {
  // CHECK: dist.reshard %arg0 : tensor<8x16xf32, #data-_> -> tensor<8x16xf32, #model$data-_>
  %0 = dist.reshard %x : !rows -> tensor<8x16xf32, #dist.shard<"model" + "data", _>>
  // CHECK: graph.transpose {{.*}} -> tensor<16x8xf32, #_-model$data>
  %1 = graph.transpose %0 {permutation = array<i64: 1, 0>} : (tensor<8x16xf32, #dist.shard<"model" + "data", _>>)
      -> tensor<16x8xf32, #dist.shard<_, "model" + "data">>
  // CHECK: dist.reshard {{.*}} -> tensor<16x8xf32, #_-data$model>
  %2 = dist.reshard %1 : tensor<16x8xf32, #dist.shard<_, "model" + "data">>
      -> tensor<16x8xf32, #dist.shard<_, "data" + "model">>
  // CHECK: graph.matmul {{.*}} -> tensor<16x16xf32, #_-_-sum-data$model>
  %3 = graph.matmul %2, %2 {transpose_rhs} : (tensor<16x8xf32, #dist.shard<_, "data" + "model">>,
      tensor<16x8xf32, #dist.shard<_, "data" + "model">>) -> tensor<16x16xf32, #dist.shard<_, _, sum "data" + "model">>
  return
}

// A dimension is sharded along its major factors first: heads, then channels.
// CHECK-LABEL: func.func @heads
func.func @heads(%x: tensor<8x32xf32, #dist.shard<_, "model" + "data">>) attributes {dist.mesh = #mesh} {
  // CHECK: graph.reshape %arg0 {{.*}} -> tensor<8x4x8xf32, #_-model-data>
  %0 = graph.reshape %x : (tensor<8x32xf32, #dist.shard<_, "model" + "data">>)
      -> tensor<8x4x8xf32, #dist.shard<_, "model", "data">>
  // CHECK: graph.reshape {{.*}} -> tensor<8x32xf32, #_-model$data>
  %1 = graph.reshape %0 : (tensor<8x4x8xf32, #dist.shard<_, "model", "data">>)
      -> tensor<8x32xf32, #dist.shard<_, "model" + "data">>
  return
}

// CHECK-LABEL: func.func @tables
func.func @tables(%t: tensor<16x8xf32, #dist.shard<"model", _>>, %i: tensor<8xi64, #dist.shard<"data">>)
    attributes {dist.mesh = #mesh} {
  // CHECK: graph.gather {{.*}} -> tensor<8x8xf32, #data-_-sum-model>
  %0 = graph.gather %t, %i {dim = 0 : i64} : (tensor<16x8xf32, #dist.shard<"model", _>>,
      tensor<8xi64, #dist.shard<"data">>) -> tensor<8x8xf32, #dist.shard<"data", _, sum "model">>
  %1 = dist.reshard %0 : tensor<8x8xf32, #dist.shard<"data", _, sum "model">>
      -> tensor<8x8xf32, #dist.shard<"data", _>>
  // A zero is a pending sum of zeros.
  // CHECK: graph.constant dense<0.000000e+00> : tensor<16x8xf32, #model-_-sum-data>
  %z = graph.constant dense<0.0> : tensor<16x8xf32, #dist.shard<"model", _, sum "data">>
  // CHECK: graph.scatter_add {{.*}} -> tensor<16x8xf32, #model-_-sum-data>
  %2 = graph.scatter_add %z, %i, %1 {dim = 0 : i64} : (tensor<16x8xf32, #dist.shard<"model", _, sum "data">>,
      tensor<8xi64, #dist.shard<"data">>, tensor<8x8xf32, #dist.shard<"data", _>>)
      -> tensor<16x8xf32, #dist.shard<"model", _, sum "data">>
  return
}

// A dimension of size one cannot be sharded, and what broadcasts it may have any sharding.
// CHECK-LABEL: func.func @repeated
func.func @repeated(%b: tensor<1x16xf32>) attributes {dist.mesh = #mesh} {
  // CHECK: graph.broadcast {{.*}} -> tensor<8x16xf32, #data-_>
  %0 = graph.broadcast %b {dims = array<i64: 0, 1>} : (tensor<1x16xf32>) -> !rows
  return
}

// An axis with one device may be used, too; names need no letters.
// CHECK-LABEL: func.func @odd_axes
// CHECK-SAME: tensor<3xf32, #a_b>
func.func @odd_axes(%x: tensor<3xf32, #dist.shard<"a b">>) attributes {dist.mesh = #dist.mesh<"a b" = 1, "2" = 3>} {
  // CHECK: graph.relu {{.*}} : tensor<3xf32, #a_b>
  %0 = graph.relu %x : tensor<3xf32, #dist.shard<"a b">>
  // CHECK: dist.reshard {{.*}} -> tensor<3xf32, #_2>
  %1 = dist.reshard %0 : tensor<3xf32, #dist.shard<"a b">> -> tensor<3xf32, #dist.shard<"2">>
  return
}

// CHECK-LABEL: func.func @collectives
// CHECK-SAME: attributes {dist.partitioned = #dist.mesh<"data" = 2, "model" = 4>}
func.func @collectives(%x: tensor<8x4xf32>, %y: tensor<4xf32>) attributes {dist.partitioned = #mesh} {
  // CHECK: dist.all_reduce sum over ["data", "model"] %arg0, %arg1 : (tensor<8x4xf32>, tensor<4xf32>)
  // CHECK-SAME: -> (tensor<8x4xf32>, tensor<4xf32>)
  %0:2 = dist.all_reduce sum over ["data", "model"] %x, %y : (tensor<8x4xf32>, tensor<4xf32>)
      -> (tensor<8x4xf32>, tensor<4xf32>)
  // CHECK: dist.all_reduce max over ["model"] %arg0 : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %1 = dist.all_reduce max over ["model"] %x : (tensor<8x4xf32>) -> tensor<8x4xf32>
  // CHECK: dist.all_gather %arg0 dim 1 over ["model"] : tensor<8x4xf32> -> tensor<8x16xf32>
  %2 = dist.all_gather %x dim 1 over ["model"] : tensor<8x4xf32> -> tensor<8x16xf32>
  // CHECK: dist.reduce_scatter min dim 0 over ["data", "model"] %arg0 : tensor<8x4xf32> -> tensor<1x4xf32>
  %3 = dist.reduce_scatter min dim 0 over ["data", "model"] %x : tensor<8x4xf32> -> tensor<1x4xf32>
  // CHECK: dist.all_gathers %arg0, %arg1 dims [1, 0] over ["model"] : (tensor<8x4xf32>, tensor<4xf32>)
  // CHECK-SAME: -> (tensor<8x16xf32>, tensor<16xf32>)
  %gathered:2 = dist.all_gathers %x, %y dims [1, 0] over ["model"] : (tensor<8x4xf32>, tensor<4xf32>)
      -> (tensor<8x16xf32>, tensor<16xf32>)
  // CHECK: dist.reduce_scatters max dims [0, 0] over ["data"] %arg0, %arg1 : (tensor<8x4xf32>, tensor<4xf32>)
  // CHECK-SAME: -> (tensor<4x4xf32>, tensor<2xf32>)
  %scattered:2 = dist.reduce_scatters max dims [0, 0] over ["data"] %x, %y : (tensor<8x4xf32>, tensor<4xf32>)
      -> (tensor<4x4xf32>, tensor<2xf32>)
  // CHECK: dist.all_to_all %arg0 dim 0 to 1 over ["data"] : tensor<8x4xf32> -> tensor<16x2xf32>
  %4 = dist.all_to_all %x dim 0 to 1 over ["data"] : tensor<8x4xf32> -> tensor<16x2xf32>
  // CHECK: dist.permute %arg1 by -1 over ["model"] : tensor<4xf32> -> tensor<4xf32>
  %5 = dist.permute %y by -1 over ["model"] : tensor<4xf32> -> tensor<4xf32>
  // CHECK: dist.transfer %arg0 dims {{\[\[\["data"\], \[\]\], \[\[\], \["model"\]\]\]}} : tensor<8x4xf32> -> tensor<16x1xf32>
  %6 = dist.transfer %x dims [[["data"], []], [[], ["model"]]] : tensor<8x4xf32> -> tensor<16x1xf32>
  // CHECK: dist.send %arg1 to 1 id 2 dims {{\[\[\["data", "model"\], \["model"\]\]\]}} : tensor<4xf32>
  dist.send %y to 1 id 2 dims [[["data", "model"], ["model"]]] : tensor<4xf32>
  // CHECK: dist.receive from 1 id 3 dims {{\[\[\[\], \["model"\]\]\]}} : tensor<4xf32>
  %7 = dist.receive from 1 id 3 dims [[[], ["model"]]] : tensor<4xf32>
  return
}
