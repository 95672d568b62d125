// RUN: divisi-opt %s | divisi-opt | FileCheck %s
// RUN: divisi-opt %s --decompose | FileCheck %s --check-prefix=PLAIN

// CHECK-LABEL: @attention
// CHECK: graph.attention %arg0, %arg1, %arg1 {causal, scale = 5.000000e-01 : f64} :
// CHECK: graph.attention %arg0, %arg1, %arg1, %arg2 {scale = 1.000000e+00 : f64} :
// CHECK: graph.attention_grad %arg0, %arg1, %arg1, %arg2, %{{.*}}, %{{.*}}, %arg0 {scale = 1.000000e+00 : f64} :
// PLAIN-LABEL: @attention
// PLAIN-COUNT-3: graph.attention
func.func @attention(%q: tensor<2x6x4x8xbf16>, %k: tensor<2x10x4x8xbf16>, %b: tensor<1x1x6x10xf32>) {
  %0:2 = graph.attention %q, %k, %k {causal, scale = 0.5 : f64} : (tensor<2x6x4x8xbf16>, tensor<2x10x4x8xbf16>, tensor<2x10x4x8xbf16>) -> (tensor<2x6x4x8xbf16>, tensor<2x4x6xf32>)
  %1:2 = graph.attention %q, %k, %k, %b {scale = 1.0 : f64} : (tensor<2x6x4x8xbf16>, tensor<2x10x4x8xbf16>, tensor<2x10x4x8xbf16>, tensor<1x1x6x10xf32>) -> (tensor<2x6x4x8xbf16>, tensor<2x4x6xf32>)
  %2:3 = graph.attention_grad %q, %k, %k, %b, %1#0, %1#1, %q {scale = 1.0 : f64} : (tensor<2x6x4x8xbf16>, tensor<2x10x4x8xbf16>, tensor<2x10x4x8xbf16>, tensor<1x1x6x10xf32>, tensor<2x6x4x8xbf16>, tensor<2x4x6xf32>, tensor<2x6x4x8xbf16>) -> (tensor<2x6x4x8xbf16>, tensor<2x10x4x8xbf16>, tensor<2x10x4x8xbf16>)
  return
}

// Libraries support only 16 bits.
// PLAIN-LABEL: @wide
// PLAIN-NOT: graph.attention
// PLAIN: graph.matmul
func.func @wide(%q: tensor<2x6x4x8xf32>) -> tensor<2x6x4x8xf32> {
  %0:2 = graph.attention %q, %q, %q {scale = 0.5 : f64} : (tensor<2x6x4x8xf32>, tensor<2x6x4x8xf32>, tensor<2x6x4x8xf32>) -> (tensor<2x6x4x8xf32>, tensor<2x4x6xf32>)
  return %0#0 : tensor<2x6x4x8xf32>
}
