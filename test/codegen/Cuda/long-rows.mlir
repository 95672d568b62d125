// RUN: divisi compile %s --emit ptx --cuda-arch 100 | FileCheck %s

// A block has a row; sums of its eight warps meet in shared memory. A row of 200 KB does not fit there: it lies in global memory,
// and 528 blocks take the rows in turn.
// CHECK: .target sm_100
// CHECK: .global .align {{[0-9]+}} .b8 kernel0_memory0[105600000];
// CHECK: .visible .entry kernel0(
// CHECK: .maxntid 256
// CHECK: shfl.sync.bfly.b32
// CHECK: st.shared
// CHECK: bar.sync
// CHECK: ld.shared
func.func @train(%x: tensor<2048x50000xf32> {graph.input = "x"}) -> (tensor<2048x50000xf32> {graph.output = "y"}) {
  %0 = graph.softmax %x {dim = 1 : i64} : (tensor<2048x50000xf32>) -> tensor<2048x50000xf32>
  return %0 : tensor<2048x50000xf32>
}
