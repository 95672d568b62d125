// RUN: divisi-opt %s --split-microbatches=count=2 --canonicalize --cse --split-tasks | FileCheck %s

// An input that no task reads is still an input of the program, once: users pass the same files for every plan.
// CHECK: graph.input = "y"
// CHECK-NOT: graph.input = "y"
func.func @train(%a: tensor<3xf32> {graph.state = {name = "a", role = "parameter"}}, %x: tensor<8x3xf32> {graph.input = "x"},
                 %y: tensor<8x2xf32> {graph.input = "y"})
    -> (tensor<3xf32> {graph.renews = "a"}, tensor<f32> {graph.result = {kind = "loss"}}) {
  %0 = graph.tanh %x : tensor<8x3xf32> loc("first")
  %1 = graph.broadcast %a {dims = array<i64: 1>} : (tensor<3xf32>) -> tensor<8x3xf32> loc("second")
  %2 = graph.mul %0, %1 : tensor<8x3xf32> loc("second")
  %3 = graph.reduce_sum %2 {dims = array<i64: 0, 1>} : (tensor<8x3xf32>) -> tensor<f32> loc("second")
  %4 = graph.reduce_sum %0 {dims = array<i64: 0>} : (tensor<8x3xf32>) -> tensor<3xf32> loc("second")
  %5 = graph.sub %a, %4 : tensor<3xf32> loc("a")
  return %5, %3 : tensor<3xf32>, tensor<f32>
}
