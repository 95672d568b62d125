// RUN: divisi compile %s --emit ptx --cuda-arch 90 | FileCheck %s

// A thread computes four consecutive elements: one load of each operand, one store, no division of indices wider than 32 bits,
// and no calls.
// CHECK: .target sm_90
// CHECK: .visible .entry kernel0(
// CHECK: .maxntid 256
// CHECK-NOT: call
// CHECK-NOT: rem.u64
// CHECK-NOT: div.u64
// CHECK: ld.global.nc.v4.b32
// CHECK-NOT: ld.global
// CHECK: ld.global.nc.v4.b32
// CHECK-NOT: ld.global
// CHECK: fma.rn.f32
// CHECK: st.global.v4.b32
// CHECK-NOT: st.global
// CHECK: ret;
func.func @train(%x: tensor<1024x768xf32> {graph.input = "x"}, %b: tensor<768xf32> {graph.input = "b"})
    -> (tensor<1024x768xf32> {graph.output = "y"}) {
  %0 = graph.broadcast %b {dims = array<i64: 1>} : (tensor<768xf32>) -> tensor<1024x768xf32>
  %1 = graph.add %x, %0 : tensor<1024x768xf32>
  %2 = graph.gelu %1 : tensor<1024x768xf32>
  return %2 : tensor<1024x768xf32>
}
