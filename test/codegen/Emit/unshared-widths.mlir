// Sums over 6 numbers for each of 7 and of 11 channels: a row's channel is a remainder of a division, which would take longer than the
// sum if the code did not know by what it divides. Each has its own function.
// RUN: divisi compile %s --emit llvm | FileCheck %s
// CHECK-NOT: noinline
// CHECK-COUNT-2: llvm.urem
// CHECK-NOT: noinline
func.func @train(%x: tensor<8x7x6xf32> {graph.input = "x"}, %y: tensor<8x11x6xf32> {graph.input = "y"},
                 %v: tensor<7xf32> {graph.input = "v"}, %w: tensor<11xf32> {graph.input = "w"})
    -> (tensor<8x7xf32> {graph.output = "p"}, tensor<8x11xf32> {graph.output = "q"}) {
  %0 = graph.broadcast %v {dims = array<i64: 1>} : (tensor<7xf32>) -> tensor<8x7x6xf32>
  %1 = graph.mul %x, %0 : tensor<8x7x6xf32>
  %2 = graph.reduce_sum %1 {dims = array<i64: 2>} : (tensor<8x7x6xf32>) -> tensor<8x7xf32>
  %3 = graph.broadcast %w {dims = array<i64: 1>} : (tensor<11xf32>) -> tensor<8x11x6xf32>
  %4 = graph.mul %y, %3 : tensor<8x11x6xf32>
  %5 = graph.reduce_sum %4 {dims = array<i64: 2>} : (tensor<8x11x6xf32>) -> tensor<8x11xf32>
  return %2, %5 : tensor<8x7xf32>, tensor<8x11xf32>
}
