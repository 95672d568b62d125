// Known answers for two layers. Sharded weights: columns, then rows; one sum of 16 x 32 numbers forward, and none
// backward, because the gradient of the input is not needed.
// RUN: divisi compile %s --emit dist --mesh model=2 | %python %S/Inputs/collectives.py \
// RUN:   | FileCheck %s --check-prefix=MODEL
// MODEL: evaluate all_reduce model tensors: 1 for 1, 2048 bytes
// MODEL-NEXT: train all_reduce model scalars: 1 for 2, 8 bytes
// MODEL-NEXT: train all_reduce model tensors: 1 for 1, 2048 bytes
// MODEL-NOT: {{.}}
// RUN: divisi compile %s --emit dist --mesh model=2 | FileCheck %s --check-prefix=ROWS
// ROWS-LABEL: func.func @evaluate
// ROWS: %[[H:.*]] = graph.matmul %{{.*}} -> tensor<16x32xf32>
// ROWS-NEXT: %[[R:.*]] = graph.relu %[[H]]
// ROWS-NEXT: %[[P:.*]] = graph.matmul %[[R]], %{{.*}} : (tensor<16x32xf32>, tensor<32x32xf32>) -> tensor<16x32xf32>
// ROWS-NEXT: %[[Y:.*]] = dist.all_reduce sum over ["model"] %[[P]]
// ROWS-NEXT: graph.sub %[[Y]]

// Sharded batch: one sum of the 4096 numbers of both gradients and of the loss.
// RUN: divisi compile %s --emit dist --mesh data=4 | %python %S/Inputs/collectives.py \
// RUN:   | FileCheck %s --check-prefix=DATA
// RUN: divisi compile %s --emit dist --devices 4 --strategy data | %python %S/Inputs/collectives.py | FileCheck %s --check-prefix=DATA
// DATA: evaluate all_reduce data scalars: 1 for 1, 4 bytes
// DATA-NEXT: train all_reduce data tensors: 1 for 3, 16388 bytes
// DATA-NOT: {{.}}

// RUN: divisi compile %s --emit dist --mesh data=4 --zero 1 --optimizer adam | %python %S/Inputs/collectives.py \
// RUN:   | FileCheck %s --check-prefix=ZERO
// ZERO: evaluate all_reduce data scalars: 1 for 1, 4 bytes
// ZERO-NEXT: train all_gather data tensors: 1 for 2, 16384 bytes
// ZERO-NEXT: train all_reduce data scalars: 2 for 3, 12 bytes
// ZERO-NEXT: train reduce_scatter data tensors: 1 for 2, 16384 bytes
// ZERO-NOT: {{.}}

// One device does not communicate.
// RUN: divisi compile %s --emit dist --mesh data=1,model=1 | FileCheck %s --check-prefix=ALONE
// ALONE: func.func @train
// ALONE-NOT: dist.{{all|reduce|permute|reshard}}

func.func @loss(%w1: tensor<64x32xf32> {graph.parameter = "fc1.weight"},
    %w2: tensor<32x64xf32> {graph.parameter = "fc2.weight"}, %x: tensor<16x32xf32> {graph.input = "x"},
    %t: tensor<16x32xf32> {graph.input = "t"}) -> (tensor<f32> {graph.loss}) {
  %h = graph.matmul %x, %w1 {transpose_rhs} : (tensor<16x32xf32>, tensor<64x32xf32>) -> tensor<16x64xf32>
  %r = graph.relu %h : tensor<16x64xf32>
  %y = graph.matmul %r, %w2 {transpose_rhs} : (tensor<16x64xf32>, tensor<32x64xf32>) -> tensor<16x32xf32>
  %d = graph.sub %y, %t : tensor<16x32xf32>
  %s = graph.mul %d, %d : tensor<16x32xf32>
  %l = graph.reduce_sum %s {dims = array<i64: 0, 1>} : (tensor<16x32xf32>) -> tensor<f32>
  return %l : tensor<f32>
}
