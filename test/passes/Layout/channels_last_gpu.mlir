// RUN: divisi-opt %s --channels-last="for-gpu narrow" --canonicalize --split-input-file | FileCheck %s --check-prefixes=CHECK,NARROW
// RUN: divisi-opt %s --channels-last=for-gpu --canonicalize --split-input-file | FileCheck %s --check-prefixes=CHECK,EXACT

// fp32 with narrow: a convolution, its transposed form and the concatenation between them, with a transpose at both ends.
// CHECK-LABEL: func.func @loss
// EXACT-NOT: graph.transpose
// NARROW: graph.transpose %arg0 {permutation = array<i64: 0, 2, 3, 1>}
// NARROW-NEXT: graph.conv {{.*}}channels_last{{.*}} -> tensor<2x8x8x8xf32>
// NARROW-NEXT: graph.relu
// NARROW-NEXT: graph.concat %{{.*}} {dim = 3 : i64} : (tensor<2x8x8x8xf32>, tensor<2x8x8x8xf32>) -> tensor<2x8x8x16xf32>
// NARROW-NEXT: graph.conv_input_grad {{.*}}channels_last{{.*}} -> tensor<2x16x16x8xf32>
// NARROW-NEXT: graph.transpose {{.*}} {permutation = array<i64: 0, 3, 1, 2>}
// CHECK: return
func.func @loss(%x: tensor<2x3x8x8xf32>, %w: tensor<8x3x3x3xf32>, %v: tensor<16x8x2x2xf32>) -> tensor<2x8x16x16xf32> {
  %0 = graph.conv %x, %w {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads_low = array<i64: 1, 1>, pads_high = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x3x8x8xf32>, tensor<8x3x3x3xf32>) -> tensor<2x8x8x8xf32>
  %1 = graph.relu %0 : tensor<2x8x8x8xf32>
  %2 = graph.concat %0, %1 {dim = 1 : i64} : (tensor<2x8x8x8xf32>, tensor<2x8x8x8xf32>) -> tensor<2x16x8x8xf32>
  %3 = graph.conv_input_grad %2, %v {strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>, pads_low = array<i64: 0, 0>, pads_high = array<i64: 0, 0>, groups = 1 : i64} : (tensor<2x16x8x8xf32>, tensor<16x8x2x2xf32>) -> tensor<2x8x16x16xf32>
  return %3 : tensor<2x8x16x16xf32>
}

// -----

// A concatenation of something else stays.
// CHECK-LABEL: func.func @loss
// CHECK: graph.concat {{.*}} {dim = 1 : i64}
func.func @loss(%x: tensor<2x3x8x8xf32>, %w: tensor<8x3x1x1xf32>) -> tensor<2x11x8x8xf32> {
  %0 = graph.conv %x, %w {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads_low = array<i64: 0, 0>, pads_high = array<i64: 0, 0>, groups = 1 : i64} : (tensor<2x3x8x8xf32>, tensor<8x3x1x1xf32>) -> tensor<2x8x8x8xf32>
  %1 = graph.concat %0, %x {dim = 1 : i64} : (tensor<2x8x8x8xf32>, tensor<2x3x8x8xf32>) -> tensor<2x11x8x8xf32>
  return %1 : tensor<2x11x8x8xf32>
}

// -----

// Images of 16 bits in any case, of fp64 in none.
// CHECK-LABEL: func.func @loss
// CHECK: graph.conv {{.*}}channels_last{{.*}} -> tensor<2x8x8x8xbf16>
// CHECK: graph.conv
// CHECK-NOT: channels_last
// CHECK-SAME: -> tensor<2x4x8x8xf64>
func.func @loss(%x: tensor<2x3x8x8xbf16>, %w: tensor<8x3x1x1xbf16>, %x64: tensor<2x3x8x8xf64>, %w64: tensor<4x3x1x1xf64>) -> (tensor<2x8x8x8xbf16>, tensor<2x4x8x8xf64>) {
  %0 = graph.conv %x, %w {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads_low = array<i64: 0, 0>, pads_high = array<i64: 0, 0>, groups = 1 : i64} : (tensor<2x3x8x8xbf16>, tensor<8x3x1x1xbf16>) -> tensor<2x8x8x8xbf16>
  %1 = graph.conv %x64, %w64 {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads_low = array<i64: 0, 0>, pads_high = array<i64: 0, 0>, groups = 1 : i64} : (tensor<2x3x8x8xf64>, tensor<4x3x1x1xf64>) -> tensor<2x4x8x8xf64>
  return %0, %1 : tensor<2x8x8x8xbf16>, tensor<2x4x8x8xf64>
}

// -----

// Six channels do not fill loads of 16 bytes: this stays, although the last ones do.
// CHECK-LABEL: func.func @loss
// CHECK-NOT: channels_last
func.func @loss(%x: tensor<2x3x8x8xf32>, %w: tensor<6x3x3x3xf32>, %v: tensor<8x6x1x1xf32>) -> tensor<2x8x8x8xf32> {
  %0 = graph.conv %x, %w {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads_low = array<i64: 1, 1>, pads_high = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x3x8x8xf32>, tensor<6x3x3x3xf32>) -> tensor<2x6x8x8xf32>
  %1 = graph.conv %0, %v {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads_low = array<i64: 0, 0>, pads_high = array<i64: 0, 0>, groups = 1 : i64} : (tensor<2x6x8x8xf32>, tensor<8x6x1x1xf32>) -> tensor<2x8x8x8xf32>
  return %1 : tensor<2x8x8x8xf32>
}
