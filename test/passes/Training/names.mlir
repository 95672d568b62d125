// RUN: divisi-opt %s --make-train='momentum=0.9' | FileCheck %s
// RUN: divisi-opt %s --make-train='optimizer=adamw' | FileCheck %s --check-prefix=ADAM

// State and inputs that the training step adds have unique names, whatever those of the model are.
// CHECK: func.func @train(
// CHECK-SAME: graph.state = {name = "w", role = "parameter"
// CHECK-SAME: graph.state = {name = "w.momentum", role = "parameter"
// CHECK-SAME: graph.state = {name = "divisi.seed", role = "parameter"
// CHECK-SAME: graph.input = "divisi.step"
// CHECK-SAME: graph.state = {name = "divisi.step~", role = "step"}
// CHECK-SAME: graph.state = {name = "divisi.seed~", role = "seed"}
// CHECK-SAME: graph.state = {moment = "momentum", name = "w.momentum~", of = "w", role = "moment"}
// CHECK-SAME: graph.state = {moment = "momentum", name = "w.momentum.momentum", of = "w.momentum", role = "moment"}
// CHECK-SAME: graph.renews = "w"
// CHECK-SAME: graph.renews = "w.momentum~"
// CHECK-SAME: graph.renews = "w.momentum"
// CHECK-SAME: graph.renews = "w.momentum.momentum"
// CHECK-SAME: graph.renews = "divisi.step~"
// ADAM: name = "w.exp_avg", of = "w", role = "moment"
func.func @loss(%w: tensor<4xf32> {graph.parameter = "w"}, %m: tensor<4xf32> {graph.parameter = "w.momentum"},
                %s: tensor<4xf32> {graph.parameter = "divisi.seed"}, %x: tensor<4xf32> {graph.input = "divisi.step"})
    -> (tensor<f32> {graph.loss}) {
  %0 = graph.mul %w, %x : tensor<4xf32>
  %1 = graph.mul %0, %m : tensor<4xf32>
  %2 = graph.mul %1, %s : tensor<4xf32>
  %3 = graph.reduce_sum %2 {dims = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  return %3 : tensor<f32>
}
