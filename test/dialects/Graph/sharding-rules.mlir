// Forms of sharding rules that the examples of the descriptions (../operations.test) do not have.
// RUN: divisi-opt %s --print-sharding-rules -o /dev/null | FileCheck %s --match-full-lines --implicit-check-not=graph.

func.func @rules(%x: tensor<4x6xf32>, %x3: tensor<2x4x6xf32>, %i: tensor<3xi64>, %u: tensor<3x6xf32>, %v: tensor<6xf32>,
                 %a: tensor<3x8x4xf32>, %b: tensor<3x2x8xf32>, %m: tensor<4x128xf32>, %w: tensor<128x128xf32>,
                 %bias: tensor<128xf32>, %seed: tensor<i64>) {
  // CHECK:graph.matmul: b0 k m, b0 n k -> b0 m n | b0=3 k=8 m=4 n=2 | sum k | linear each
  %0 = graph.matmul %a, %b {transpose_lhs, transpose_rhs} : (tensor<3x8x4xf32>, tensor<3x2x8xf32>) -> tensor<3x4x2xf32>

  // The third operand and the second result of an epilogue, by its kind.
  // CHECK:graph.matmul_epilogue: m k, k n, n -> m n | m=4 k=128 n=128 | whole m k n
  %1 = graph.matmul_epilogue bias %m, %w, %bias : (tensor<4x128xf32>, tensor<128x128xf32>, tensor<128xf32>) -> tensor<4x128xf32>
  // CHECK:graph.matmul_epilogue: m k, k n -> m n | m=4 k=128 n=128 | whole m k n
  %2 = graph.matmul_epilogue relu %m, %w : (tensor<4x128xf32>, tensor<128x128xf32>) -> tensor<4x128xf32>
  // CHECK:graph.matmul_epilogue: m k, k n, n -> m n, m n | m=4 k=128 n=128 | whole m k n
  %3:2 = graph.matmul_epilogue gelu %m, %w, %bias : (tensor<4x128xf32>, tensor<128x128xf32>, tensor<128xf32>) -> (tensor<4x128xf32>, tensor<4x128xf32>)
  // CHECK:graph.matmul_epilogue: m k, k n, m n -> m n | m=4 k=128 n=128 | whole m k n
  %4 = graph.matmul_epilogue gelu_grad %m, %w, %m : (tensor<4x128xf32>, tensor<128x128xf32>, tensor<4x128xf32>) -> tensor<4x128xf32>
  // CHECK:graph.matmul_epilogue: m k, k n -> m n, m | m=4 k=128 n=128 | whole m k n
  %5:2 = graph.matmul_epilogue sum_lhs %m, %w : (tensor<4x128xf32>, tensor<128x128xf32>) -> (tensor<4x128xf32>, tensor<4xf32>)
  // CHECK:graph.matmul_epilogue: m k, k n -> m n, n | m=4 k=128 n=128 | whole m k n
  %6:2 = graph.matmul_epilogue sum_rhs %m, %w : (tensor<4x128xf32>, tensor<128x128xf32>) -> (tensor<4x128xf32>, tensor<128xf32>)

  // An element may be added to zeros in parts; a scalar has no factors.
  // CHECK:graph.constant: -> d0 d1 | d0=4 d1=6 | linear movement | zero
  %zeros = graph.constant dense<0.0> : tensor<4x6xf32>
  // CHECK:graph.constant: -> d0 d1 | d0=4 d1=6 | linear movement
  %ones = graph.constant dense<1.0> : tensor<4x6xf32>
  // CHECK:graph.scatter_add: row c0, i0, i0 c0 -> row c0 | row=4 c0=6 i0=3 | sum i0 | indexed row | accumulates #0
  %7 = graph.scatter_add %zeros, %i, %u {dim = 0 : i64} : (tensor<4x6xf32>, tensor<3xi64>, tensor<3x6xf32>) -> tensor<4x6xf32>
  // CHECK:graph.gather: a0 row c0, i0 -> a0 i0 c0 | a0=2 row=4 c0=6 i0=3 | sum row | indexed row
  %8 = graph.gather %x3, %i {dim = 1 : i64} : (tensor<2x4x6xf32>, tensor<3xi64>) -> tensor<2x3x6xf32>
  // CHECK:graph.reduce_sum: d0 d1 -> () | d0=4 d1=6 | sum d0 d1 | linear all
  %9 = graph.reduce_sum %x {dims = array<i64: 0, 1>} : (tensor<4x6xf32>) -> tensor<f32>
  // CHECK:graph.add: (), () -> () | linear all
  %10 = graph.add %9, %9 : tensor<f32>

  // 4x6 and 6x4 have no common factor.
  // CHECK:graph.reshape: . . -> . . | linear movement
  %11 = graph.reshape %x : (tensor<4x6xf32>) -> tensor<6x4xf32>
  // Padding with another number than zero is not linear; a maximum is not a sum.
  // CHECK:graph.pad: d0 . -> d0 . | d0=4
  %12 = graph.pad %x {low = array<i64: 0, 1>, steps = array<i64: 1, 1>, value = 1.0 : f64} : (tensor<4x6xf32>) -> tensor<4x8xf32>
  // CHECK:graph.accumulate: d0 d1 -> d0 d1 | d0=4 d1=6
  %13 = graph.accumulate %x {combine = #graph<combine max>} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  // CHECK:graph.dropout: d0 d1 -> d0 d1 | d0=4 d1=6
  %14 = graph.dropout %x {ratio = 0.5 : f64, stream = 1 : i64} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  // CHECK:graph.random_uniform: (), (), () -> d0 d1 | d0=4 d1=6
  %15 = graph.random_uniform %seed, %seed, %seed {stream = 1 : i64, strides = array<i64: 12, 1>} : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<4x6xf32>
  // CHECK:graph.batch_norm: d0 d1, d1, d1, d1, d1 -> d0 d1, d1, d1 | d0=4 d1=6 | whole d0
  %16:3 = graph.batch_norm %x, %v, %v, %v, %v {dim = 1 : i64, epsilon = 1.0e-5 : f64} : (tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>) -> (tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>)
  return
}

// The bias has no heads. A window of 5 needs two elements of each neighbour. Without padding, spatial dimensions are not sharded.
func.func @windows(%q: tensor<2x6x4x8xf32>, %k: tensor<2x10x4x8xf32>, %bias: tensor<2x1x6x10xf32>, %x: tensor<1x4x16xf32>,
                   %f: tensor<2x4x5xf32>, %image: tensor<2x8x8x4xf32>, %filter: tensor<6x2x3x3xf32>) {
  // CHECK:graph.attention: b s h d, b t h d, b t h d, b . s t -> b s h d, b h s | b=2 s=6 h=4 d=8 t=10 | whole d t
  %0:2 = graph.attention %q, %k, %k, %bias {scale = 0.5 : f64} : (tensor<2x6x4x8xf32>, tensor<2x10x4x8xf32>, tensor<2x10x4x8xf32>, tensor<2x1x6x10xf32>) -> (tensor<2x6x4x8xf32>, tensor<2x4x6xf32>)
  // CHECK:graph.conv: n g*i h0, g*o i . -> n g*o h0 | n=1 g=1 i=4 o=2 h0=16 | sum i | windowed h0 | least h0=2 | linear each
  %1 = graph.conv %x, %f {strides = array<i64: 1>, dilations = array<i64: 1>, pads_low = array<i64: 2>, pads_high = array<i64: 2>, groups = 1 : i64} : (tensor<1x4x16xf32>, tensor<2x4x5xf32>) -> tensor<1x2x16xf32>
  // CHECK:graph.conv: n . . g*i, g*o i . . -> n . . g*o | n=2 g=2 i=2 o=3 | sum i | linear each
  %2 = graph.conv %image, %filter {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads_low = array<i64: 0, 0>, pads_high = array<i64: 0, 0>, groups = 2 : i64, channels_last} : (tensor<2x8x8x4xf32>, tensor<6x2x3x3xf32>) -> tensor<2x6x6x6xf32>
  return
}
