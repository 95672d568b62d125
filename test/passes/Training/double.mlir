// RUN: divisi-opt %s --make-train='momentum=0.9 clip-norm=2' --canonicalize | FileCheck %s
// RUN: divisi-opt %s --make-train=optimizer=adamw --canonicalize | FileCheck %s --check-prefix=ADAM
// RUN: divisi-opt %s --make-train='loss-scaling=true' --canonicalize | FileCheck %s --check-prefix=SCALE

// Parameters of several types: each is renewed in its own, norms are summed in the widest (and never in 16 bits), and the
// learning rate, which is float, is converted.
// CHECK-LABEL: func.func @train
// CHECK: graph.cast %{{.*}} : (tensor<4xf16>) -> tensor<4xf64>
// CHECK: graph.cast %{{.*}} : (tensor<f32>) -> tensor<f64>
// CHECK: graph.sub %arg0, %{{.*}} : tensor<4xf64>
// CHECK: graph.sub %arg1, %{{.*}} : tensor<4xf16>
// ADAM-LABEL: func.func @train
// ADAM: graph.sub %arg0, %{{.*}} : tensor<4xf64>
// ADAM: graph.sub %arg1, %{{.*}} : tensor<4xf16>
// SCALE-LABEL: func.func @train
// SCALE: graph.cast %{{.*}} : (tensor<f64>) -> tensor<f32>
// SCALE: graph.select %{{.*}} : (tensor<4xi1>, tensor<4xf64>, tensor<4xf64>) -> tensor<4xf64>
func.func @loss(%w: tensor<4xf64> {graph.parameter = "w"}, %h: tensor<4xf16> {graph.parameter = "h"}, %x: tensor<4xf64> {graph.input = "x"})
    -> (tensor<f32> {graph.loss}) {
  %0 = graph.cast %h : (tensor<4xf16>) -> tensor<4xf64>
  %1 = graph.mul %w, %0 : tensor<4xf64>
  %2 = graph.mul %1, %x : tensor<4xf64>
  %3 = graph.reduce_sum %2 {dims = array<i64: 0>} : (tensor<4xf64>) -> tensor<f64>
  %4 = graph.cast %3 : (tensor<f64>) -> tensor<f32>
  return %4 : tensor<f32>
}
