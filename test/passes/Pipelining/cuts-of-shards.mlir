// What is so cheap that every stage computes it is no node of a stage. A sum over a microbatch of the input is one, that of each device's shard is
// not: the cut is then before the node that follows.
// RUN: divisi compile %s --mesh stage=2,data=2 --microbatches 2 --cut total --emit=plan | FileCheck %s
// RUN: divisi compile %s --mesh stage=2,data=2 --microbatches 2 --cut total --emit=dist | FileCheck %s --check-prefix=DIST
// RUN: not divisi compile %s --mesh stage=2,data=2 --microbatches 2 --cut x --emit=dist 2>&1 | FileCheck %s --check-prefix=INPUT
// INPUT: cut: there is no node 'x' in the forward pass
// CHECK: cuts = ["total"]
// DIST-LABEL: func.func @train.1
// DIST: graph.add {{.*}}"loss:0"
func.func @loss(%w: tensor<10xf32> {graph.parameter = "w"}, %x: tensor<8x10xf32> {graph.input = "x"}) -> (tensor<f32> {graph.loss}) {
  %0 = graph.broadcast %w {dims = array<i64: 1>} : (tensor<10xf32>) -> tensor<8x10xf32> loc("scale")
  %1 = graph.mul %x, %0 : tensor<8x10xf32> loc("scale")
  %2 = graph.reduce_sum %1 {dims = array<i64: 0, 1>} : (tensor<8x10xf32>) -> tensor<f32> loc("weighted")
  %3 = graph.reduce_sum %x {dims = array<i64: 0, 1>} : (tensor<8x10xf32>) -> tensor<f32> loc("total")
  %4 = graph.add %2, %3 : tensor<f32> loc("loss")
  return %4 : tensor<f32>
}
