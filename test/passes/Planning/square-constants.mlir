// Constants with many users (of gelu, of momentum and weight decay) do not give these users equal shardings, either: every weight
// is a square of the same size.
// RUN: divisi compile %s --emit dist --mesh model=2 | %python %S/Inputs/collectives.py | FileCheck %s
// RUN: divisi compile %s --emit dist --mesh model=2 --momentum 0.9 --weight-decay 0.01 \
// RUN:   | %python %S/Inputs/collectives.py | FileCheck %s
// RUN: divisi compile %s --emit dist --mesh model=2 --optimizer adamw --weight-decay 0.01 \
// RUN:   | %python %S/Inputs/collectives.py | FileCheck %s
// CHECK: evaluate all_reduce model tensors: 1 for 1, 4096 bytes
// CHECK-NEXT: train all_reduce model scalars: 1 for 3, 12 bytes
// CHECK-NEXT: train all_reduce model tensors: 1 for 1, 4096 bytes
// CHECK-NOT: {{.}}

!m = tensor<32x32xf32>
!v = tensor<32xf32>
func.func @loss(%w1: !m {graph.parameter = "fc1.weight"}, %b1: !v {graph.parameter = "fc1.bias"},
    %w2: !m {graph.parameter = "fc2.weight"}, %b2: !v {graph.parameter = "fc2.bias"}, %x: !m {graph.input = "x"},
    %t: !m {graph.input = "t"}) -> (tensor<f32> {graph.loss}) {
  %m0 = graph.matmul %x, %w1 {transpose_rhs} : (!m, !m) -> !m
  %m1 = graph.broadcast %b1 {dims = array<i64: 1>} : (!v) -> !m
  %m2 = graph.add %m0, %m1 : !m
  %m3 = graph.gelu %m2 : !m
  %m4 = graph.matmul %m3, %w2 {transpose_rhs} : (!m, !m) -> !m
  %m5 = graph.broadcast %b2 {dims = array<i64: 1>} : (!v) -> !m
  %m6 = graph.add %m4, %m5 : !m
  %d = graph.sub %m6, %t : !m
  %e = graph.mul %d, %d : !m
  %l = graph.reduce_sum %e {dims = array<i64: 0, 1>} : (!m) -> tensor<f32>
  return %l : tensor<f32>
}
