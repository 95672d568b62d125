// RUN: divisi-opt %s --make-train --canonicalize --split-input-file | FileCheck %s
// RUN: divisi-opt %s --make-train --name-nodes --split-input-file | FileCheck %s --check-prefix=NAMES

// A weight that is used twice by few rows: the products of its gradient are one product of the joined rows, the last use first.
// CHECK-LABEL: func.func @train(
// CHECK: %[[H:.*]] = graph.matmul %arg1, %arg0 :
// CHECK: %[[Y:.*]] = graph.matmul %[[H]], %arg0 :
// CHECK: %[[GH:.*]] = graph.matmul %[[GY:.*]], %arg0 {transpose_rhs}
// CHECK: %[[X0:.*]] = graph.reshape %arg1 : (tensor<2x8xf32>) -> tensor<2x1x8xf32>
// CHECK: %[[X1:.*]] = graph.reshape %[[H]] : (tensor<2x8xf32>) -> tensor<2x1x8xf32>
// CHECK: %[[X:.*]] = graph.concat %[[X0]], %[[X1]] {dim = 1 : i64}
// CHECK: %[[ROWS:.*]] = graph.reshape %[[X]] : (tensor<2x2x8xf32>) -> tensor<4x8xf32>
// CHECK: graph.reshape %[[GH]] : (tensor<2x8xf32>) -> tensor<2x1x8xf32>
// CHECK: graph.reshape %[[GY]] : (tensor<2x8xf32>) -> tensor<2x1x8xf32>
// CHECK: graph.matmul %[[ROWS]], %{{.*}} {transpose_lhs} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
// CHECK-NOT: graph.matmul
func.func @loss(%w: tensor<8x8xf32> {graph.parameter = "w"},
                %x: tensor<2x8xf32> {graph.input = "x"}) -> (tensor<f32> {graph.loss}) {
  %h = graph.matmul %x, %w : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
  %y = graph.matmul %h, %w : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
  %square = graph.mul %y, %y : tensor<2x8xf32>
  %loss = graph.reduce_sum %square {dims = array<i64: 0, 1>} : (tensor<2x8xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// With as many rows as this, the weights' gradients are smaller than what they are computed from: they are added up.
// CHECK-LABEL: func.func @train(
// CHECK-NOT: graph.concat
func.func @loss(%w: tensor<8x8xf32> {graph.parameter = "w"},
                %x: tensor<16x8xf32> {graph.input = "x"}) -> (tensor<f32> {graph.loss}) {
  %h = graph.matmul %x, %w : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
  %y = graph.matmul %h, %w : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
  %square = graph.mul %y, %y : tensor<16x8xf32>
  %loss = graph.reduce_sum %square {dims = array<i64: 0, 1>} : (tensor<16x8xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// Gradients of slices that do not overlap are joined, with zeros where there is no slice; the one that overlaps is added.
// CHECK-LABEL: func.func @train(
// CHECK-DAG: %[[ZERO:.*]] = graph.constant dense<0.000000e+00> : tensor<2x8xf32>
// CHECK: %[[PAD:.*]] = graph.pad %{{.*}} {low = array<i64: 1, 0>
// CHECK: %[[JOINED:.*]] = graph.concat %{{.*}}, %[[ZERO]], %{{.*}} {dim = 0 : i64} : (tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>)
// CHECK: graph.add %[[PAD]], %[[JOINED]] : tensor<6x8xf32>
func.func @loss(%w: tensor<6x8xf32> {graph.parameter = "w"},
                %x: tensor<2x8xf32> {graph.input = "x"}) -> (tensor<f32> {graph.loss}) {
  %a = graph.slice %w {starts = array<i64: 0, 0>, steps = array<i64: 1, 1>} : (tensor<6x8xf32>) -> tensor<2x8xf32>
  %b = graph.slice %w {starts = array<i64: 4, 0>, steps = array<i64: 1, 1>} : (tensor<6x8xf32>) -> tensor<2x8xf32>
  %c = graph.slice %w {starts = array<i64: 1, 0>, steps = array<i64: 1, 1>} : (tensor<6x8xf32>) -> tensor<2x8xf32>
  %ab = graph.mul %a, %b : tensor<2x8xf32>
  %abc = graph.mul %ab, %c : tensor<2x8xf32>
  %y = graph.mul %abc, %x : tensor<2x8xf32>
  %loss = graph.reduce_sum %y {dims = array<i64: 0, 1>} : (tensor<2x8xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// What joins the gradients of a weight's slices belongs to the node that reads them, not to the first one of the model.
// NAMES: graph.concat %{{.*}} {dim = 0 : i64, graph.node = "gates:grad.{{[0-9]+}}"}
func.func @loss(%e: tensor<2x8xf32> {graph.parameter = "e"}, %w: tensor<4x8xf32> {graph.parameter = "w"},
                %x: tensor<2x8xf32> {graph.input = "x"}) -> (tensor<f32> {graph.loss}) {
  %h = graph.mul %x, %e : tensor<2x8xf32> loc("first")
  %a = graph.slice %w {starts = array<i64: 0, 0>, steps = array<i64: 1, 1>} : (tensor<4x8xf32>) -> tensor<2x8xf32> loc("gates")
  %b = graph.slice %w {starts = array<i64: 2, 0>, steps = array<i64: 1, 1>} : (tensor<4x8xf32>) -> tensor<2x8xf32> loc("gates")
  %y = graph.mul %a, %h : tensor<2x8xf32> loc("cell")
  %z = graph.mul %y, %b : tensor<2x8xf32> loc("cell")
  %loss = graph.reduce_sum %z {dims = array<i64: 0, 1>} : (tensor<2x8xf32>) -> tensor<f32> loc("loss")
  return %loss : tensor<f32>
}
