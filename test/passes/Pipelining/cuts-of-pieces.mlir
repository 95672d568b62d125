// Rows that are no multiple of the devices are padded, and each device takes a piece of them: what is computed of inputs alone belongs to
// no stage, before partition as well as after it, so that cuts are among the same nodes.
// RUN: divisi compile %s --mesh stage=2,data=2 --microbatches 2 --emit=plan | FileCheck %s
// RUN: divisi compile %s --mesh stage=2,data=2 --microbatches 2 --emit=exec -o %t
// CHECK: cuts = ["{{shift|loss}}"]
// CHECK: dist.pad "x" dim 1 parts 2
func.func @loss(%w: tensor<4xf32> {graph.parameter = "w"}, %x: tensor<6x4xf32> {graph.input = "x"}) -> (tensor<f32> {graph.loss}) {
  %0 = graph.exp %x : tensor<6x4xf32> loc("first")
  %1 = graph.tanh %0 : tensor<6x4xf32> loc("second")
  %2 = graph.tanh %1 : tensor<6x4xf32> loc("third")
  %3 = graph.broadcast %w {dims = array<i64: 1>} : (tensor<4xf32>) -> tensor<6x4xf32> loc("scale")
  %4 = graph.mul %2, %3 : tensor<6x4xf32> loc("scale")
  %5 = graph.neg %4 : tensor<6x4xf32> loc("shift")
  %6 = graph.reduce_sum %5 {dims = array<i64: 0, 1>} : (tensor<6x4xf32>) -> tensor<f32> loc("loss")
  return %6 : tensor<f32>
}
