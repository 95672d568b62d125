// RUN: divisi compile %s --emit ptx --cuda-arch 100 | FileCheck %s

// A block computes a row; sums of its eight warps are combined in shared memory. The exponentials of a row of 200 KB do not fit
// there: each pass recomputes them.
// CHECK: .target sm_100
// CHECK-NOT: .global
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
