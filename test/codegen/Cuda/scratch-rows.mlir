// RUN: divisi compile %s --emit ptx --cuda-arch 100 | FileCheck %s

// Sums of 64 KB for each row are not recomputed and do not fit into shared memory: they are in global memory, and 528 blocks
// take the rows in turn.
// CHECK: .global .align {{[0-9]+}} .b8 kernel0_memory0[34603008];
// CHECK: .visible .entry kernel0(
func.func @train(%x: tensor<2048x4x16384xf32> {graph.input = "x"}) -> (tensor<2048x16384xf32> {graph.output = "y"}) {
  %s = graph.reduce_sum %x {dims = array<i64: 1>} : (tensor<2048x4x16384xf32>) -> tensor<2048x16384xf32>
  %m = graph.reduce_max %s {dims = array<i64: 1>} : (tensor<2048x16384xf32>) -> tensor<2048xf32>
  %b = graph.broadcast %m {dims = array<i64: 0>} : (tensor<2048xf32>) -> tensor<2048x16384xf32>
  %y = graph.sub %s, %b : tensor<2048x16384xf32>
  return %y : tensor<2048x16384xf32>
}
