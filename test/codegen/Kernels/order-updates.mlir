// RUN: divisi-opt %s --form-kernels --order-updates --split-input-file | FileCheck %s
// RUN: divisi-opt %s --form-kernels=for-gpu --order-updates=for-gpu --split-input-file | FileCheck %s --check-prefix=GPU
// RUN: divisi-opt %s --form-kernels --assign-buffers --split-input-file | FileCheck %s --check-prefix=BEFORE
// RUN: divisi-opt %s --form-kernels --order-updates --assign-buffers --split-input-file | FileCheck %s --check-prefix=PLACES

// The update of w2 follows the gradient of h, which reads w2, and the norm of its own gradient: dw1 takes the place of dw2.
// Both new weights are computed in the place of the old ones. On a GPU these few bytes stay together.
// CHECK-LABEL: @train
// CHECK: exec.call graph.matmul (%arg0, %arg2)
// CHECK: %[[DW2:.*]] = exec.call graph.matmul {transpose_lhs}
// CHECK-NEXT: %[[DH:.*]] = exec.call graph.matmul {transpose_rhs} (%arg1, %arg3)
// CHECK-NEXT: exec.kernel {{.*}}(%[[DW2]]) {when = 1 : i64}
// CHECK: exec.kernel {{.*}}(%arg3, %[[DW2]])
// CHECK: %[[DW1:.*]] = exec.call graph.matmul {transpose_lhs} (%arg0, %[[DH]])
// CHECK-NEXT: exec.kernel {{.*}}(%arg2, %[[DW1]])
// GPU-LABEL: @train
// GPU-COUNT-4: exec.call
// GPU-NOT: exec.call
// GPU: exec.kernel
// BEFORE: exec.arena_bytes = 114688
// PLACES: exec.arena_bytes = 98368
// PLACES-LABEL: @train
// PLACES-NOT: exec.copy
func.func @train(%x: tensor<64x64xf32> {graph.input = "x"}, %dy: tensor<64x64xf32> {graph.input = "y"},
                 %w1: tensor<64x64xf32> {graph.state = {name = "w1", role = "parameter"}},
                 %w2: tensor<64x64xf32> {graph.state = {name = "w2", role = "parameter"}})
    -> (tensor<64x64xf32> {graph.renews = "w1"}, tensor<64x64xf32> {graph.renews = "w2"},
        tensor<f32> {graph.result = {kind = "grad_norm", when = 1}}) {
  %h = graph.matmul %x, %w1 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %dw2 = graph.matmul %h, %dy {transpose_lhs} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %dh = graph.matmul %dy, %w2 {transpose_rhs} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %dw1 = graph.matmul %x, %dh {transpose_lhs} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %square = graph.mul %dw2, %dw2 : tensor<64x64xf32>
  %norm = graph.reduce_sum %square {dims = array<i64: 0, 1>} : (tensor<64x64xf32>) -> tensor<f32>
  %1 = graph.sub %w1, %dw1 : tensor<64x64xf32>
  %2 = graph.sub %w2, %dw2 : tensor<64x64xf32>
  return %1, %2, %norm : tensor<64x64xf32>, tensor<64x64xf32>, tensor<f32>
}

// -----

// A weight that is read until the end of the step is renewed behind that. A task of a step in microbatches keeps its order.
// CHECK-LABEL: @train
// CHECK: %[[DW:.*]] = exec.call graph.matmul
// CHECK-NEXT: exec.call graph.matmul
// CHECK-NEXT: %[[LAST:.*]] = exec.call graph.matmul (%{{.*}}, %arg1)
// CHECK-NEXT: exec.kernel {{.*}}(%arg1, %[[DW]])
// CHECK-LABEL: @other.0.backward
// CHECK-COUNT-2: exec.call
// CHECK: exec.kernel
func.func @train(%x: tensor<64x64xf32> {graph.input = "x"}, %w: tensor<64x64xf32> {graph.state = {name = "w", role = "parameter"}})
    -> (tensor<64x64xf32> {graph.renews = "w"}, tensor<64x64xf32> {graph.output = "y"}) {
  %dw = graph.matmul %x, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %h = graph.matmul %x, %dw : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %y = graph.matmul %h, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = graph.sub %w, %dw : tensor<64x64xf32>
  return %1, %y : tensor<64x64xf32>, tensor<64x64xf32>
}
func.func @other.0.backward(%x: tensor<64x64xf32> {graph.input = "x"}, %w: tensor<64x64xf32> {graph.state = {name = "v", role = "parameter"}})
    -> (tensor<64x64xf32> {graph.renews = "v"}, tensor<64x64xf32> {graph.output = "y"}) {
  %dw = graph.matmul %x, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %y = graph.matmul %x, %x : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = graph.sub %w, %dw : tensor<64x64xf32>
  return %1, %y : tensor<64x64xf32>, tensor<64x64xf32>
}

// -----

// A partitioned step keeps its order: the last collectives run beside the updates that need no other.
// CHECK-LABEL: @train
// CHECK: exec.call dist.all_reduce
// CHECK: exec.call graph.matmul
// CHECK: exec.call graph.matmul
// CHECK: exec.kernel
#mesh = #dist.mesh<"data" = 2>
func.func @train(%x: tensor<64x64xf32> {graph.input = "x"}, %w: tensor<64x64xf32> {graph.state = {name = "w", role = "parameter"}})
    -> (tensor<64x64xf32> {graph.renews = "w"}, tensor<64x64xf32> {graph.output = "y"})
    attributes {dist.partitioned = #mesh} {
  %dw = dist.all_reduce sum over ["data"] %x : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %h = graph.matmul %x, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %y = graph.matmul %x, %h : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = graph.sub %w, %dw : tensor<64x64xf32>
  return %1, %y : tensor<64x64xf32>, tensor<64x64xf32>
}
