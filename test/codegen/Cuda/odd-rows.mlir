// RUN: divisi compile %s --emit ptx --cuda-arch 90 | FileCheck %s

// Rows of 50,257 elements of 16 bits do not begin where a load of 16 bytes may: those of a block do, and the elements at the ends
// are read one by one. The exponential, the sum's reciprocal and the rounding to 16 bits are single instructions.
// CHECK: .visible .entry kernel0(
// CHECK: .maxntid 256
// CHECK: ld.global.nc.v4.b32
// CHECK: ex2.approx.ftz.f32
// CHECK: cvt.rn.bf16
// CHECK: st.global.v4.b32
// CHECK-NOT: div.rn
func.func @train(%x: tensor<8192x50257xbf16> {graph.input = "x"}) -> (tensor<8192x50257xbf16> {graph.output = "y"}) {
  %0 = graph.cast %x : (tensor<8192x50257xbf16>) -> tensor<8192x50257xf32>
  %1 = graph.softmax %0 {dim = 1 : i64} : (tensor<8192x50257xf32>) -> tensor<8192x50257xf32>
  %2 = graph.cast %1 : (tensor<8192x50257xf32>) -> tensor<8192x50257xbf16>
  return %2 : tensor<8192x50257xbf16>
}
