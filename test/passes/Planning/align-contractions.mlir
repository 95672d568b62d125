// Rows of weights that do not begin at multiples of 16 bytes grow where tensor cores read them: 1,001 classes become 1,024, three
// channels become eight. States keep zeros in what they have more; the softmax's sum does not count them.
// RUN: divisi compile %s --target cuda --precision bf16 --emit train | FileCheck %s
// RUN: divisi compile %s --target cuda --precision tf32 --emit train | FileCheck %s --check-prefix=TF32
// CHECK-LABEL: func.func @train
// CHECK-SAME: tensor<1024x64xf32> {{{.*}}name = "fc"{{.*}}graph.unpadded = array<i64: 1001, 64>}
// CHECK-SAME: tensor<64x8x5x5xf32> {{{.*}}name = "conv"{{.*}}graph.unpadded = array<i64: 64, 3, 5, 5>}
// CHECK-SAME: tensor<64x3x64x64xf32> {graph.input = "x"}
// CHECK: graph.conv %{{.*}} {channels_last{{.*}} : (tensor<64x64x64x8xbf16>, tensor<64x8x5x5xbf16>) -> tensor<64x64x64x64xbf16>
// CHECK: %[[Y:.*]] = graph.matmul %{{.*}} -> tensor<16384x1024xbf16>
// CHECK: %[[INSIDE:.*]] = graph.compare lt
// CHECK: graph.select %{{.*}} : {{.*}} -> tensor<16384x1024xf32>
// CHECK: graph.reduce_max
// CHECK: graph.matmul {{.*}} -> tensor<1024x64xbf16>
// CHECK-LABEL: func.func @evaluate
// CHECK-SAME: tensor<1024x64xf32>
// TF32-LABEL: func.func @train
// TF32-SAME: tensor<1024x64xf32> {{{.*}}name = "fc"{{.*}}graph.unpadded = array<i64: 1001, 64>}
// TF32-SAME: tensor<64x4x5x5xf32> {{{.*}}name = "conv"{{.*}}graph.unpadded = array<i64: 64, 3, 5, 5>}

// Not in fp32, on CPUs, or where a product takes less time than a launch.
// RUN: divisi compile %s --target cuda --emit train | FileCheck %s --check-prefix=MODEL
// RUN: divisi compile %s --precision bf16 --emit train | FileCheck %s --check-prefix=MODEL
// RUN: sed "s/16384/64/g; s/64x3x64x64/4x3x16x16/g; s/64x64x64x64xf32/4x64x16x16xf32/g; s/64x64x16x16xf32/4x64x4x4xf32/g" %s > %t.mlir
// RUN: divisi compile %t.mlir --target cuda --precision bf16 --emit train | FileCheck %s --check-prefix=MODEL
// MODEL-LABEL: func.func @train
// MODEL-SAME: tensor<1001x64xf32>
// MODEL-SAME: tensor<64x3x5x5xf32>

// --init draws the same numbers, padded or sharded.
// RUN: divisi compile %s --target cuda --precision bf16 -o %t.padded && grep -a -o '"init":{[^}]*}' %t.padded > %t.padded.init
// RUN: divisi compile %s --target cuda -o %t.plain && grep -a -o '"init":{[^}]*}' %t.plain | tee %t.init | FileCheck %s --check-prefix=INIT
// RUN: divisi compile %s --mesh data=2 --zero 3 -o %t.sharded && grep -a -o '"init":{[^}]*}' %t.sharded | diff - %t.init
// RUN: diff %t.padded.init %t.init
// INIT: "init":{"kind":"uniform","scale":0.125}
// INIT: "init":{"kind":"uniform","scale":0.11547
func.func @loss(%w: tensor<1001x64xf32> {graph.parameter = "fc"}, %f: tensor<64x3x5x5xf32> {graph.parameter = "conv"},
                %x: tensor<64x3x64x64xf32> {graph.input = "x"}, %t: tensor<16384xi64> {graph.input = "t"}) -> (tensor<f32> {graph.loss}) {
  %0 = graph.conv %x, %f {dilations = array<i64: 1, 1>, groups = 1 : i64, pads_high = array<i64: 2, 2>, pads_low = array<i64: 2, 2>, strides = array<i64: 1, 1>} : (tensor<64x3x64x64xf32>, tensor<64x3x5x5xf32>) -> tensor<64x64x64x64xf32>
  %1 = graph.slice %0 {starts = array<i64: 0, 0, 0, 0>, steps = array<i64: 1, 1, 4, 4>} : (tensor<64x64x64x64xf32>) -> tensor<64x64x16x16xf32>
  %2 = graph.reshape %1 : (tensor<64x64x16x16xf32>) -> tensor<16384x64xf32>
  %3 = graph.matmul %2, %w {transpose_rhs} : (tensor<16384x64xf32>, tensor<1001x64xf32>) -> tensor<16384x1001xf32>
  %4 = graph.cross_entropy %3, %t : (tensor<16384x1001xf32>, tensor<16384xi64>) -> tensor<16384xf32>
  %5 = graph.reduce_sum %4 {dims = array<i64: 0>} : (tensor<16384xf32>) -> tensor<f32>
  return %5 : tensor<f32>
}
