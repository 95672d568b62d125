// Channels of a group that do not divide (8 over 3): padding the weight would end before the convolution, whose input has all
// groups' channels in one dimension, and would be requested again without end. Such weights stay replicated, and planning ends.
// RUN: divisi compile %s --emit=plan --mesh model=3 | FileCheck %s
// CHECK: mesh <"model" = 3> {
// CHECK-NEXT: }
func.func @loss(%w: tensor<64x8x3x3xf32> {graph.parameter = "w"}, %x: tensor<2x32x6x6xf32> {graph.input = "x"})
    -> (tensor<f32> {graph.loss}) {
  %0 = graph.conv %x, %w {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads_low = array<i64: 1, 1>,
    pads_high = array<i64: 1, 1>, groups = 4 : i64} : (tensor<2x32x6x6xf32>, tensor<64x8x3x3xf32>) -> tensor<2x64x6x6xf32>
  %1 = graph.mul %0, %0 : tensor<2x64x6x6xf32>
  %2 = graph.reduce_sum %1 {dims = array<i64: 0, 1, 2, 3>} : (tensor<2x64x6x6xf32>) -> tensor<f32>
  return %2 : tensor<f32>
}
