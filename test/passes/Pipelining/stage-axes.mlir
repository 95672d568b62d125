// RUN: divisi-opt %s --split-microbatches=count=4 --canonicalize --cse --assign-stages="stages=2 cuts=second mesh=data=2 axes=data,none" \
// RUN:   --plan=mesh=data=2 -o %t.planned.mlir
// RUN: FileCheck %s --check-prefix=PLANNED < %t.planned.mlir
// RUN: divisi-opt %s --split-microbatches=count=4 --canonicalize --cse --assign-stages="stages=2 cuts=second mesh=data=2 axes=data,none" \
// RUN:   --plan=mesh=data=2 --partition --canonicalize --cse --assign-stages="stages=2 cuts=second" --split-tasks | FileCheck %s
// RUN: not divisi-opt %s --split-microbatches=count=4 --assign-stages="stages=2 cuts=second mesh=data=2 axes=data,model" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=WRONG
// RUN: not divisi-opt %s --split-microbatches=count=4 --assign-stages="stages=4 mesh=data=2 axes=data,none,none" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=COUNT
// RUN: sed 's/dist.stage_axes = \[\["data"\], \[\]\]/dist.stage_axes = ["data"]/' %t.planned.mlir > %t.bad.mlir
// RUN: not divisi-opt %t.bad.mlir 2>&1 | FileCheck %s --check-prefix=LISTS
// WRONG: error: axes: the mesh of a stage has no axis 'model'
// COUNT: error: axes: expected an entry for each of 4 stages
// LISTS: error: 'func.func' op 'dist.stage_axes' must be a list of lists of axes, one for each stage

// The first stage has two devices, over which the rows of a microbatch are sharded; the second has one, with all rows.
// PLANNED-NOT: dist.place "a"
// PLANNED: func.func @train
// PLANNED-SAME: dist.stage_axes = {{\[\["data"\], \[\]\]}}
// PLANNED: %[[H:.*]] = graph.tanh {{.*}} {dist.stage = 0 : i64, graph.node = "first:1"} : tensor<2x4xf32, #data-_>
// PLANNED: %[[WHOLE:.*]] = dist.reshard %[[H]] {{.*}}: tensor<2x4xf32, #data-_> -> tensor<2x4xf32>
// PLANNED: graph.matmul %[[WHOLE]], %{{.*}} {dist.stage = 1 : i64, graph.node = "second:0"} : (tensor<2x4xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>

// The first stage sends its rows, and the second all of them; each device of the first gets its own rows of the gradient.
// CHECK-LABEL: func.func @train.0.forward
// CHECK-SAME: tensor<4x1x3xf32> {dist.global = tensor<4x2x3xf32, #dist.shard<_, "data", _>>
// CHECK: %[[H:.*]] = graph.tanh {{.*}} : tensor<1x4xf32>
// CHECK: dist.send %[[H]] to 1 id [[THERE:[0-9]]] dims {{\[\[\["data"\], \[\]\], \[\[\], \[\]\]\]}} : tensor<1x4xf32>
// CHECK-LABEL: func.func @train.0.backward
// CHECK: %[[MINE:.*]] = dist.receive from 1 id [[BACK:[0-9]]] dims {{\[\[\[\], \["data"\]\], \[\[\], \[\]\]\]}} : tensor<1x4xf32>
// CHECK: graph.mul %[[MINE]]
// CHECK-LABEL: func.func @train.0.finish
// CHECK: dist.all_reduce sum over ["data"]
// CHECK-LABEL: func.func @train.1.forward
// CHECK-NOT: axis_index
// CHECK: dist.receive from 0 id [[THERE]] dims {{\[\[\["data"\], \[\]\], \[\[\], \[\]\]\]}} : tensor<2x4xf32>
// CHECK-LABEL: func.func @train.1.backward
// CHECK-NOT: over ["data"]
// CHECK: dist.send %{{.*}} to 0 id [[BACK]] dims {{\[\[\[\], \["data"\]\], \[\[\], \[\]\]\]}} : tensor<2x4xf32>
// CHECK-NOT: over ["data"]
// CHECK-NOT: dist.transfer
// CHECK: dist.schedule "train"
func.func @train(%a: tensor<3x4xf32> {graph.state = {name = "a", role = "parameter"}},
                 %b: tensor<4x5xf32> {graph.state = {name = "b", role = "parameter"}}, %x: tensor<8x3xf32> {graph.input = "x"})
    -> (tensor<3x4xf32> {graph.renews = "a"}, tensor<4x5xf32> {graph.renews = "b"}, tensor<f32> {graph.result = {kind = "loss"}}) {
  %0 = graph.matmul %x, %a : (tensor<8x3xf32>, tensor<3x4xf32>) -> tensor<8x4xf32> loc("first")
  %1 = graph.tanh %0 : tensor<8x4xf32> loc("first")
  %2 = graph.matmul %1, %b : (tensor<8x4xf32>, tensor<4x5xf32>) -> tensor<8x5xf32> loc("second")
  %3 = graph.tanh %2 : tensor<8x5xf32> loc("second")
  %4 = graph.reduce_sum %3 {dims = array<i64: 0, 1>} : (tensor<8x5xf32>) -> tensor<f32> loc("second")
  %5 = graph.matmul %1, %3 {transpose_lhs} : (tensor<8x4xf32>, tensor<8x5xf32>) -> tensor<4x5xf32> loc("second")
  %6 = graph.matmul %3, %b {transpose_rhs} : (tensor<8x5xf32>, tensor<4x5xf32>) -> tensor<8x4xf32> loc("second")
  %7 = graph.mul %6, %1 : tensor<8x4xf32> loc("first")
  %8 = graph.matmul %x, %7 {transpose_lhs} : (tensor<8x3xf32>, tensor<8x4xf32>) -> tensor<3x4xf32> loc("first")
  %9 = graph.sub %a, %8 : tensor<3x4xf32> loc("a")
  %10 = graph.sub %b, %5 : tensor<4x5xf32> loc("b")
  return %9, %10, %4 : tensor<3x4xf32>, tensor<4x5xf32>, tensor<f32>
}
