// RUN: env CUDA_HOME=%t.nowhere CUDA_PATH=%t.nowhere divisi compile %s --emit ptx --cuda-arch 90 > %t 2> %t.err || true
// RUN: cat %t %t.err | FileCheck %s

// Double precision uses the CUDA Toolkit's libdevice, inlined; without a Toolkit there is an error.
// CHECK-NOT: call
// CHECK: {{fma.rn.f64|error: a kernel needs '__nv_exp' of the CUDA Toolkit's libdevice.10.bc: install the Toolkit, or set CUDA_HOME}}
func.func @train(%x: tensor<64xf64> {graph.input = "x"}) -> (tensor<64xf64> {graph.output = "y"}) {
  %0 = graph.exp %x : tensor<64xf64>
  return %0 : tensor<64xf64>
}
