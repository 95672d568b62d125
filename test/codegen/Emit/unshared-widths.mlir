// Sums over 2 x 3 numbers for each of 7 and of 11 channels: a row's channel is a remainder of a division, which would take longer than
// the sum if the code did not know by what it divides. Each has its own function.
// RUN: divisi compile %s --emit llvm | FileCheck %s
// CHECK-NOT: noinline
// CHECK-COUNT-2: llvm.urem
// CHECK-NOT: noinline
func.func @train(%x: tensor<8x7x2x3xf32> {graph.input = "x"}, %y: tensor<8x11x2x3xf32> {graph.input = "y"}, %u: tensor<3xf32> {graph.input = "u"},
                 %v: tensor<7xf32> {graph.input = "v"}, %w: tensor<11xf32> {graph.input = "w"})
    -> (tensor<8x7xf32> {graph.output = "p"}, tensor<8x11xf32> {graph.output = "q"}) {
  %0 = graph.broadcast %v {dims = array<i64: 1>} : (tensor<7xf32>) -> tensor<8x7x2x3xf32>
  %1 = graph.broadcast %u {dims = array<i64: 3>} : (tensor<3xf32>) -> tensor<8x7x2x3xf32>
  %2 = graph.mul %x, %0 : tensor<8x7x2x3xf32>
  %3 = graph.mul %2, %1 : tensor<8x7x2x3xf32>
  %4 = graph.reduce_sum %3 {dims = array<i64: 2, 3>} : (tensor<8x7x2x3xf32>) -> tensor<8x7xf32>
  %5 = graph.broadcast %w {dims = array<i64: 1>} : (tensor<11xf32>) -> tensor<8x11x2x3xf32>
  %6 = graph.broadcast %u {dims = array<i64: 3>} : (tensor<3xf32>) -> tensor<8x11x2x3xf32>
  %7 = graph.mul %y, %5 : tensor<8x11x2x3xf32>
  %8 = graph.mul %7, %6 : tensor<8x11x2x3xf32>
  %9 = graph.reduce_sum %8 {dims = array<i64: 2, 3>} : (tensor<8x11x2x3xf32>) -> tensor<8x11xf32>
  return %4, %9 : tensor<8x7xf32>, tensor<8x11xf32>
}
