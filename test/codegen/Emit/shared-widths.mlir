// Sums of rows of 96 and of 160 numbers, each with its own factor: one function, to which the length of a row is passed. It is the
// bound of a loop, and the distance of rows.
// RUN: divisi compile %s --emit llvm | FileCheck %s
// CHECK: llvm.func internal @[[KERNEL:kernel[0-9]+]]({{.*}}, %[[WIDTH:arg[0-9]+]]: i64) attributes {passthrough = ["noinline"]
// CHECK: llvm.mul %{{.*}}, %[[WIDTH]]
// CHECK: llvm.icmp "slt" %{{.*}}, %[[WIDTH]]
// CHECK: llvm.mlir.constant(96 : i64)
// CHECK-NEXT: llvm.call @[[KERNEL]](
// CHECK: llvm.mlir.constant(160 : i64)
// CHECK-NEXT: llvm.call @[[KERNEL]](
func.func @train(%x: tensor<8x96xf32> {graph.input = "x"}, %y: tensor<8x160xf32> {graph.input = "y"},
                 %v: tensor<96xf32> {graph.input = "v"}, %w: tensor<160xf32> {graph.input = "w"})
    -> (tensor<8xf32> {graph.output = "p"}, tensor<8xf32> {graph.output = "q"}) {
  %0 = graph.broadcast %v {dims = array<i64: 1>} : (tensor<96xf32>) -> tensor<8x96xf32>
  %1 = graph.mul %x, %0 : tensor<8x96xf32>
  %2 = graph.reduce_sum %1 {dims = array<i64: 1>} : (tensor<8x96xf32>) -> tensor<8xf32>
  %3 = graph.broadcast %w {dims = array<i64: 1>} : (tensor<160xf32>) -> tensor<8x160xf32>
  %4 = graph.mul %y, %3 : tensor<8x160xf32>
  %5 = graph.reduce_sum %4 {dims = array<i64: 1>} : (tensor<8x160xf32>) -> tensor<8xf32>
  return %2, %5 : tensor<8xf32>, tensor<8xf32>
}
