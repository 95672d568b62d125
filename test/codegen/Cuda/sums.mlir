// RUN: divisi compile %s --emit ptx --cuda-arch 90 | FileCheck %s

// A batch norm's sums: a block for each part of the images and each channel; a thread loads eight neighbours at once, and
// the partial sums of its warps meet in shared memory.
// CHECK-LABEL: .visible .entry kernel0(
// CHECK: .maxntid 256
// CHECK: ld.global.nc.v4.b32
// CHECK: shfl.sync.bfly.b32
// CHECK: bar.sync
// CHECK: st.global.b32
// CHECK: .visible .entry kernel1(
func.func @train(%x: tensor<256x64x56x56xbf16> {graph.input = "x"}) -> (tensor<64xf32> {graph.output = "y"}) {
  %0 = graph.cast %x : (tensor<256x64x56x56xbf16>) -> tensor<256x64x56x56xf32>
  %1 = graph.reduce_sum %0 {dims = array<i64: 0, 2, 3>} : (tensor<256x64x56x56xf32>) -> tensor<64xf32>
  return %1 : tensor<64xf32>
}
