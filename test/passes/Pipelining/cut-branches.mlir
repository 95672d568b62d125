// RUN: divisi-opt %s --split-microbatches=count=4 --canonicalize --cse "--assign-stages=stages=3 cuts={left2 + right2},join" | FileCheck %s
// RUN: not divisi-opt %s --split-microbatches=count=4 "--assign-stages=stages=2 cuts={left2 + rigth2}" 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not divisi-opt %s --split-microbatches=count=4 "--assign-stages=stages=3 cuts=join,{left2 + right2}" 2>&1 | FileCheck %s --check-prefix=ORDER
// NAME: error: cut: there is no node 'rigth2' in the forward pass; did you mean 'right2'?
// ORDER: error: cut: expected the first nodes of stages 1 to 2, in their order

// A cut through two branches that alternate in the order of the model.
// CHECK-DAG: graph.matmul {{.*}} {dist.stage = 0 : i64, graph.node = "left1:
// CHECK-DAG: graph.relu {{.*}} {dist.stage = 1 : i64, graph.node = "left2:
// CHECK-DAG: graph.matmul {{.*}} {dist.stage = 0 : i64, graph.node = "right1:
// CHECK-DAG: graph.neg {{.*}} {dist.stage = 1 : i64, graph.node = "right2:
// CHECK-DAG: graph.add {{.*}} {dist.stage = 2 : i64, graph.node = "join:
func.func @train(%x: tensor<8x3xf32> {graph.input = "x"}, %w: tensor<3x3xf32> {graph.state = {name = "w", role = "parameter"}})
    -> (tensor<f32> {graph.result = {kind = "loss"}}) {
  %0 = graph.matmul %x, %w : (tensor<8x3xf32>, tensor<3x3xf32>) -> tensor<8x3xf32> loc("left1")
  %1 = graph.relu %0 : tensor<8x3xf32> loc("left2")
  %2 = graph.matmul %x, %w {transpose_rhs} : (tensor<8x3xf32>, tensor<3x3xf32>) -> tensor<8x3xf32> loc("right1")
  %3 = graph.neg %2 : tensor<8x3xf32> loc("right2")
  %4 = graph.add %1, %3 : tensor<8x3xf32> loc("join")
  %5 = graph.reduce_sum %4 {dims = array<i64: 0, 1>} : (tensor<8x3xf32>) -> tensor<f32> loc("join")
  return %5 : tensor<f32>
}
