// RUN: divisi compile %s --emit ptx --cuda-arch 90 | FileCheck %s

// Sums of columns: a thread adds four neighbours, the eight warps of a block add different rows.
// CHECK-LABEL: .visible .entry kernel0(
// CHECK: .maxntid 256
// CHECK: ld.global.nc.v{{2.b32|4.b16}}
// CHECK-NOT: ld.global.nc.b16
// CHECK: st.shared
// CHECK: bar.sync
// CHECK: ld.shared
// CHECK: st.global.v4.b32
// CHECK: .visible .entry kernel1(
func.func @train(%x: tensor<8192x768xbf16> {graph.input = "x"}) -> (tensor<768xf32> {graph.output = "y"}) {
  %0 = graph.cast %x : (tensor<8192x768xbf16>) -> tensor<8192x768xf32>
  %1 = graph.reduce_sum %0 {dims = array<i64: 0>} : (tensor<8192x768xf32>) -> tensor<768xf32>
  return %1 : tensor<768xf32>
}
