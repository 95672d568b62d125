// Three tensors side by side in 8 rows: in which one a place lies is decided before the loop over its 96 numbers, which loads once.
// RUN: divisi compile %s --emit llvm | FileCheck %s
// CHECK: llvm.func internal @kernel0(
// CHECK-COUNT-2: llvm.select %{{.*}} : i1, !llvm.struct<(ptr
// CHECK: llvm.icmp "slt" %{{.*}}, %{{.*}} : i64
// CHECK-NOT: llvm.select
// CHECK-COUNT-1: llvm.load
// CHECK-NOT: llvm.load
// CHECK: llvm.store
// CHECK: llvm.return
func.func @train(%x: tensor<8x2x96xf32> {graph.input = "x"}, %y: tensor<8x96xf32> {graph.input = "y"}, %z: tensor<8x3x96xf32> {graph.input = "z"})
    -> (tensor<8x6x96xf32> {graph.output = "p"}) {
  %0 = graph.reshape %y : (tensor<8x96xf32>) -> tensor<8x1x96xf32>
  %1 = graph.concat %x, %0, %z {dim = 1 : i64} : (tensor<8x2x96xf32>, tensor<8x1x96xf32>, tensor<8x3x96xf32>) -> tensor<8x6x96xf32>
  return %1 : tensor<8x6x96xf32>
}
