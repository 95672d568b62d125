// RUN: divisi compile %s --emit ptx --cuda-arch 80 | FileCheck %s

// A warp computes a row: the maximum and the sum by five shuffles each, the exponentials in between in shared memory, without a
// barrier of the whole block.
// CHECK: .target sm_80
// CHECK: .visible .entry kernel0(
// CHECK: .maxntid 128
// CHECK: .shared .align {{[0-9]+}} .b8 kernel0_memory0[8192];
// CHECK-NOT: bar.sync
// CHECK: ld.global.nc
// CHECK-COUNT-5: shfl.sync.bfly.b32
// CHECK-NOT: shfl
// CHECK: st.shared
// CHECK-COUNT-5: shfl.sync.bfly.b32
// CHECK-NOT: shfl
// CHECK: bar.warp.sync
// CHECK: ld.shared
// CHECK: st.global
func.func @train(%x: tensor<256x512xf32> {graph.input = "x"}) -> (tensor<256x512xf32> {graph.output = "y"}) {
  %0 = graph.softmax %x {dim = 1 : i64} : (tensor<256x512xf32>) -> tensor<256x512xf32>
  return %0 : tensor<256x512xf32>
}
