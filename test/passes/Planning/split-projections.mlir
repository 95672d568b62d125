// RUN: divisi-opt %s --split-projections --canonicalize --split-input-file | FileCheck %s

// Query, key and value: each from its slice of the parameters, which are one parameter in the model.
// CHECK-LABEL: func.func @loss
// CHECK-SAME: %arg0: tensor<3x8x16xf32> {graph.model_shape = array<i64: 24, 16>, graph.parameter = "w"}
// CHECK-SAME: %arg1: tensor<3x8xf32> {graph.model_shape = array<i64: 24>, graph.parameter = "b"}
// CHECK: %[[A:.*]] = graph.slice %arg0 {starts = array<i64: 0, 0, 0>, {{.*}} -> tensor<1x8x16xf32>
// CHECK: %[[W:.*]] = graph.reshape %[[A]] : (tensor<1x8x16xf32>) -> tensor<8x16xf32>
// CHECK: %[[Q:.*]] = graph.matmul %arg2, %[[W]] {transpose_rhs} : {{.*}} -> tensor<4x8xf32>
// CHECK: %[[B:.*]] = graph.slice %arg1 {starts = array<i64: 0, 0>, {{.*}} -> tensor<1x8xf32>
// CHECK: graph.add %[[Q]], %{{.*}} : tensor<4x8xf32>
// CHECK: graph.slice %arg0 {starts = array<i64: 1, 0, 0>
// CHECK: graph.slice %arg1 {starts = array<i64: 1, 0>
// CHECK: graph.slice %arg0 {starts = array<i64: 2, 0, 0>
// CHECK: graph.slice %arg1 {starts = array<i64: 2, 0>
// CHECK-NOT: 4x24
func.func @loss(%w: tensor<24x16xf32> {graph.parameter = "w"}, %b: tensor<24xf32> {graph.parameter = "b"},
    %x: tensor<4x16xf32> {graph.input = "x"}) -> (tensor<f32> {graph.loss}) {
  %h = graph.matmul %x, %w {transpose_rhs} : (tensor<4x16xf32>, tensor<24x16xf32>) -> tensor<4x24xf32>
  %c = graph.broadcast %b {dims = array<i64: 1>} : (tensor<24xf32>) -> tensor<4x24xf32>
  %s = graph.add %h, %c : tensor<4x24xf32>
  %p0 = graph.slice %s {starts = array<i64: 0, 0>, steps = array<i64: 1, 1>} : (tensor<4x24xf32>) -> tensor<4x8xf32>
  %l0 = graph.reduce_sum %p0 {dims = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32>
  %p1 = graph.slice %s {starts = array<i64: 0, 8>, steps = array<i64: 1, 1>} : (tensor<4x24xf32>) -> tensor<4x8xf32>
  %l1 = graph.reduce_sum %p1 {dims = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32>
  %p2 = graph.slice %s {starts = array<i64: 0, 16>, steps = array<i64: 1, 1>} : (tensor<4x24xf32>) -> tensor<4x8xf32>
  %l2 = graph.reduce_sum %p2 {dims = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32>
  %t0 = graph.add %l0, %l1 : tensor<f32>
  %t1 = graph.add %t0, %l2 : tensor<f32>
  return %t1 : tensor<f32>
}

// -----

// Not transposed: the second dimension is sliced.
// CHECK-LABEL: func.func @loss
// CHECK-SAME: %arg0: tensor<16x3x8xf32> {graph.model_shape = array<i64: 16, 24>, graph.parameter = "w"}
// CHECK: %[[A:.*]] = graph.slice %arg0 {starts = array<i64: 0, 1, 0>, {{.*}} -> tensor<16x1x8xf32>
// CHECK: %[[W:.*]] = graph.reshape %[[A]] : (tensor<16x1x8xf32>) -> tensor<16x8xf32>
// CHECK: graph.matmul %arg2, %[[W]] : {{.*}} -> tensor<4x8xf32>
func.func @loss(%w: tensor<16x24xf32> {graph.parameter = "w"}, %b: tensor<24xf32> {graph.parameter = "b"},
    %x: tensor<4x16xf32> {graph.input = "x"}) -> (tensor<f32> {graph.loss}) {
  %h = graph.matmul %x, %w : (tensor<4x16xf32>, tensor<16x24xf32>) -> tensor<4x24xf32>
  %c = graph.broadcast %b {dims = array<i64: 1>} : (tensor<24xf32>) -> tensor<4x24xf32>
  %s = graph.add %h, %c : tensor<4x24xf32>
  %p0 = graph.slice %s {starts = array<i64: 0, 8>, steps = array<i64: 1, 1>} : (tensor<4x24xf32>) -> tensor<4x8xf32>
  %l0 = graph.reduce_sum %p0 {dims = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32>
  return %l0 : tensor<f32>
}

// -----

// Slices of unequal size (grouped queries).
// CHECK-LABEL: func.func @loss
// CHECK-SAME: %arg0: tensor<24x16xf32> {graph.parameter = "w"}, %arg1: tensor<24xf32> {graph.parameter = "b"}
// CHECK-NOT: graph.model_shape
func.func @loss(%w: tensor<24x16xf32> {graph.parameter = "w"}, %b: tensor<24xf32> {graph.parameter = "b"},
    %x: tensor<4x16xf32> {graph.input = "x"}) -> (tensor<f32> {graph.loss}) {
  %h = graph.matmul %x, %w {transpose_rhs} : (tensor<4x16xf32>, tensor<24x16xf32>) -> tensor<4x24xf32>
  %c = graph.broadcast %b {dims = array<i64: 1>} : (tensor<24xf32>) -> tensor<4x24xf32>
  %s = graph.add %h, %c : tensor<4x24xf32>
  %p0 = graph.slice %s {starts = array<i64: 0, 0>, steps = array<i64: 1, 1>} : (tensor<4x24xf32>) -> tensor<4x16xf32>
  %l0 = graph.reduce_sum %p0 {dims = array<i64: 0, 1>} : (tensor<4x16xf32>) -> tensor<f32>
  %p1 = graph.slice %s {starts = array<i64: 0, 16>, steps = array<i64: 1, 1>} : (tensor<4x24xf32>) -> tensor<4x4xf32>
  %l1 = graph.reduce_sum %p1 {dims = array<i64: 0, 1>} : (tensor<4x4xf32>) -> tensor<f32>
  %p2 = graph.slice %s {starts = array<i64: 0, 20>, steps = array<i64: 1, 1>} : (tensor<4x24xf32>) -> tensor<4x4xf32>
  %l2 = graph.reduce_sum %p2 {dims = array<i64: 0, 1>} : (tensor<4x4xf32>) -> tensor<f32>
  %t0 = graph.add %l0, %l1 : tensor<f32>
  %t1 = graph.add %t0, %l2 : tensor<f32>
  return %t1 : tensor<f32>
}

// -----

// Not at a multiple of the size.
// CHECK-LABEL: func.func @loss
// CHECK-SAME: %arg0: tensor<24x16xf32> {graph.parameter = "w"}, %arg1: tensor<24xf32> {graph.parameter = "b"}
func.func @loss(%w: tensor<24x16xf32> {graph.parameter = "w"}, %b: tensor<24xf32> {graph.parameter = "b"},
    %x: tensor<4x16xf32> {graph.input = "x"}) -> (tensor<f32> {graph.loss}) {
  %h = graph.matmul %x, %w {transpose_rhs} : (tensor<4x16xf32>, tensor<24x16xf32>) -> tensor<4x24xf32>
  %c = graph.broadcast %b {dims = array<i64: 1>} : (tensor<24xf32>) -> tensor<4x24xf32>
  %s = graph.add %h, %c : tensor<4x24xf32>
  %p0 = graph.slice %s {starts = array<i64: 0, 4>, steps = array<i64: 1, 1>} : (tensor<4x24xf32>) -> tensor<4x8xf32>
  %l0 = graph.reduce_sum %p0 {dims = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32>
  %p1 = graph.slice %s {starts = array<i64: 0, 12>, steps = array<i64: 1, 1>} : (tensor<4x24xf32>) -> tensor<4x8xf32>
  %l1 = graph.reduce_sum %p1 {dims = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32>
  %t0 = graph.add %l0, %l1 : tensor<f32>
  return %t0 : tensor<f32>
}

// -----

// Another user needs the whole value.
// CHECK-LABEL: func.func @loss
// CHECK-SAME: %arg0: tensor<24x16xf32> {graph.parameter = "w"}, %arg1: tensor<24xf32> {graph.parameter = "b"}
func.func @loss(%w: tensor<24x16xf32> {graph.parameter = "w"}, %b: tensor<24xf32> {graph.parameter = "b"},
    %x: tensor<4x16xf32> {graph.input = "x"}) -> (tensor<f32> {graph.loss}) {
  %h = graph.matmul %x, %w {transpose_rhs} : (tensor<4x16xf32>, tensor<24x16xf32>) -> tensor<4x24xf32>
  %c = graph.broadcast %b {dims = array<i64: 1>} : (tensor<24xf32>) -> tensor<4x24xf32>
  %s = graph.add %h, %c : tensor<4x24xf32>
  %p0 = graph.slice %s {starts = array<i64: 0, 0>, steps = array<i64: 1, 1>} : (tensor<4x24xf32>) -> tensor<4x8xf32>
  %l0 = graph.reduce_sum %p0 {dims = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32>
  %p1 = graph.slice %s {starts = array<i64: 0, 8>, steps = array<i64: 1, 1>} : (tensor<4x24xf32>) -> tensor<4x8xf32>
  %l1 = graph.reduce_sum %p1 {dims = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32>
  %p2 = graph.slice %s {starts = array<i64: 0, 16>, steps = array<i64: 1, 1>} : (tensor<4x24xf32>) -> tensor<4x8xf32>
  %l2 = graph.reduce_sum %p2 {dims = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32>
  %e = graph.reduce_sum %s {dims = array<i64: 0, 1>} : (tensor<4x24xf32>) -> tensor<f32>
  %t0 = graph.add %l0, %l1 : tensor<f32>
  %t1 = graph.add %t0, %l2 : tensor<f32>
  %t2 = graph.add %t1, %e : tensor<f32>
  return %t2 : tensor<f32>
}

// -----

// A softmax over the whole dimension in between.
// CHECK-LABEL: func.func @loss
// CHECK-SAME: %arg0: tensor<24x16xf32> {graph.parameter = "w"}, %arg1: tensor<24xf32> {graph.parameter = "b"}
func.func @loss(%w: tensor<24x16xf32> {graph.parameter = "w"}, %b: tensor<24xf32> {graph.parameter = "b"},
    %x: tensor<4x16xf32> {graph.input = "x"}) -> (tensor<f32> {graph.loss}) {
  %h = graph.matmul %x, %w {transpose_rhs} : (tensor<4x16xf32>, tensor<24x16xf32>) -> tensor<4x24xf32>
  %c = graph.broadcast %b {dims = array<i64: 1>} : (tensor<24xf32>) -> tensor<4x24xf32>
  %s = graph.add %h, %c : tensor<4x24xf32>
  %m = graph.softmax %s {dim = 1 : i64} : (tensor<4x24xf32>) -> tensor<4x24xf32>
  %p0 = graph.slice %m {starts = array<i64: 0, 0>, steps = array<i64: 1, 1>} : (tensor<4x24xf32>) -> tensor<4x8xf32>
  %l0 = graph.reduce_sum %p0 {dims = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32>
  %p1 = graph.slice %m {starts = array<i64: 0, 8>, steps = array<i64: 1, 1>} : (tensor<4x24xf32>) -> tensor<4x8xf32>
  %l1 = graph.reduce_sum %p1 {dims = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32>
  %p2 = graph.slice %m {starts = array<i64: 0, 16>, steps = array<i64: 1, 1>} : (tensor<4x24xf32>) -> tensor<4x8xf32>
  %l2 = graph.reduce_sum %p2 {dims = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32>
  %t0 = graph.add %l0, %l1 : tensor<f32>
  %t1 = graph.add %t0, %l2 : tensor<f32>
  return %t1 : tensor<f32>
}

// -----

// Elementwise operations in between are allowed.
// CHECK-LABEL: func.func @loss
// CHECK-SAME: %arg0: tensor<3x8x16xf32> {graph.model_shape
// CHECK: graph.sigmoid {{.*}} : tensor<4x8xf32>
func.func @loss(%w: tensor<24x16xf32> {graph.parameter = "w"}, %b: tensor<24xf32> {graph.parameter = "b"},
    %x: tensor<4x16xf32> {graph.input = "x"}) -> (tensor<f32> {graph.loss}) {
  %h = graph.matmul %x, %w {transpose_rhs} : (tensor<4x16xf32>, tensor<24x16xf32>) -> tensor<4x24xf32>
  %c = graph.broadcast %b {dims = array<i64: 1>} : (tensor<24xf32>) -> tensor<4x24xf32>
  %s = graph.add %h, %c : tensor<4x24xf32>
  %m = graph.sigmoid %s : tensor<4x24xf32>
  %p0 = graph.slice %m {starts = array<i64: 0, 0>, steps = array<i64: 1, 1>} : (tensor<4x24xf32>) -> tensor<4x8xf32>
  %l0 = graph.reduce_sum %p0 {dims = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32>
  %p1 = graph.slice %m {starts = array<i64: 0, 8>, steps = array<i64: 1, 1>} : (tensor<4x24xf32>) -> tensor<4x8xf32>
  %l1 = graph.reduce_sum %p1 {dims = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32>
  %p2 = graph.slice %m {starts = array<i64: 0, 16>, steps = array<i64: 1, 1>} : (tensor<4x24xf32>) -> tensor<4x8xf32>
  %l2 = graph.reduce_sum %p2 {dims = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32>
  %t0 = graph.add %l0, %l1 : tensor<f32>
  %t1 = graph.add %t0, %l2 : tensor<f32>
  return %t1 : tensor<f32>
}

// -----

// A parameter that has other uses, too: they use the model's shape.
// CHECK-LABEL: func.func @loss
// CHECK-SAME: %arg0: tensor<3x8x16xf32> {graph.model_shape = array<i64: 24, 16>, graph.parameter = "w"}
// CHECK: %[[V:.*]] = graph.reshape %arg0 : (tensor<3x8x16xf32>) -> tensor<24x16xf32>
// CHECK: %[[T:.*]] = graph.exp %[[V]] : tensor<24x16xf32>
// CHECK: graph.reduce_sum %[[T]]
func.func @loss(%w: tensor<24x16xf32> {graph.parameter = "w"}, %b: tensor<24xf32> {graph.parameter = "b"},
    %x: tensor<4x16xf32> {graph.input = "x"}) -> (tensor<f32> {graph.loss}) {
  %h = graph.matmul %x, %w {transpose_rhs} : (tensor<4x16xf32>, tensor<24x16xf32>) -> tensor<4x24xf32>
  %c = graph.broadcast %b {dims = array<i64: 1>} : (tensor<24xf32>) -> tensor<4x24xf32>
  %s = graph.add %h, %c : tensor<4x24xf32>
  %p0 = graph.slice %s {starts = array<i64: 0, 0>, steps = array<i64: 1, 1>} : (tensor<4x24xf32>) -> tensor<4x8xf32>
  %l0 = graph.reduce_sum %p0 {dims = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32>
  %p1 = graph.slice %s {starts = array<i64: 0, 8>, steps = array<i64: 1, 1>} : (tensor<4x24xf32>) -> tensor<4x8xf32>
  %l1 = graph.reduce_sum %p1 {dims = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32>
  %p2 = graph.slice %s {starts = array<i64: 0, 16>, steps = array<i64: 1, 1>} : (tensor<4x24xf32>) -> tensor<4x8xf32>
  %l2 = graph.reduce_sum %p2 {dims = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32>
  %d = graph.exp %w : tensor<24x16xf32>
  %e = graph.reduce_sum %d {dims = array<i64: 0, 1>} : (tensor<24x16xf32>) -> tensor<f32>
  %t0 = graph.add %l0, %l1 : tensor<f32>
  %t1 = graph.add %t0, %l2 : tensor<f32>
  %t2 = graph.add %t1, %e : tensor<f32>
  return %t2 : tensor<f32>
}

// -----

// Slices of a slice that is replaced, as recurrent layers take a step's gates of one sample: the inner ones stay.
// CHECK-LABEL: func.func @loss
// CHECK-SAME: %arg0: tensor<2x4x6xf32> {graph.model_shape = array<i64: 8, 6>, graph.parameter = "w"}
// CHECK: %[[FIRST:.*]] = graph.matmul %{{.*}} -> tensor<5x4xf32>
// CHECK: graph.slice %[[FIRST]] {{.*}} -> tensor<1x4xf32>
// CHECK: %[[SECOND:.*]] = graph.matmul %{{.*}} -> tensor<5x4xf32>
// CHECK: graph.slice %[[SECOND]] {{.*}} -> tensor<1x4xf32>
func.func @loss(%w: tensor<8x6xf32> {graph.parameter = "w"}, %x: tensor<5x6xf32> {graph.input = "x"}) -> (tensor<f32> {graph.loss}) {
  %h = graph.matmul %x, %w {transpose_rhs} : (tensor<5x6xf32>, tensor<8x6xf32>) -> tensor<5x8xf32>
  %p0 = graph.slice %h {starts = array<i64: 0, 0>, steps = array<i64: 1, 1>} : (tensor<5x8xf32>) -> tensor<5x4xf32>
  %q0 = graph.slice %p0 {starts = array<i64: 2, 0>, steps = array<i64: 1, 1>} : (tensor<5x4xf32>) -> tensor<1x4xf32>
  %l0 = graph.reduce_sum %q0 {dims = array<i64: 0, 1>} : (tensor<1x4xf32>) -> tensor<f32>
  %p1 = graph.slice %h {starts = array<i64: 0, 4>, steps = array<i64: 1, 1>} : (tensor<5x8xf32>) -> tensor<5x4xf32>
  %q1 = graph.slice %p1 {starts = array<i64: 3, 0>, steps = array<i64: 1, 1>} : (tensor<5x4xf32>) -> tensor<1x4xf32>
  %l1 = graph.reduce_sum %q1 {dims = array<i64: 0, 1>} : (tensor<1x4xf32>) -> tensor<f32>
  %t = graph.add %l0, %l1 : tensor<f32>
  return %t : tensor<f32>
}

// -----

// Numbers of places: the second slice has places 4 to 7, which are no numbers of places of its own.
// CHECK-LABEL: func.func @loss
// CHECK-SAME: %arg0: tensor<8xf32> {graph.parameter = "w"}
// CHECK: graph.iota {dim = 1 : i64} : tensor<5x8xf32>
func.func @loss(%w: tensor<8xf32> {graph.parameter = "w"}, %x: tensor<5xf32> {graph.input = "x"}) -> (tensor<f32> {graph.loss}) {
  %i = graph.iota {dim = 1 : i64} : tensor<5x8xf32>
  %c = graph.broadcast %w {dims = array<i64: 1>} : (tensor<8xf32>) -> tensor<5x8xf32>
  %s = graph.mul %i, %c : tensor<5x8xf32>
  %p = graph.slice %s {starts = array<i64: 0, 4>, steps = array<i64: 1, 1>} : (tensor<5x8xf32>) -> tensor<5x4xf32>
  %l = graph.reduce_sum %p {dims = array<i64: 0, 1>} : (tensor<5x4xf32>) -> tensor<f32>
  return %l : tensor<f32>
}

// -----

// Random numbers, which do not depend on how a model is split.
// CHECK-LABEL: func.func @loss
// CHECK-SAME: %arg0: tensor<8x6xf32> {graph.parameter = "w"}
// CHECK: graph.dropout %{{.*}} : (tensor<5x8xf32>) -> tensor<5x8xf32>
func.func @loss(%w: tensor<8x6xf32> {graph.parameter = "w"}, %x: tensor<5x6xf32> {graph.input = "x"}) -> (tensor<f32> {graph.loss}) {
  %h = graph.matmul %x, %w {transpose_rhs} : (tensor<5x6xf32>, tensor<8x6xf32>) -> tensor<5x8xf32>
  %d = graph.dropout %h {ratio = 0.5 : f64, stream = 1 : i64} : (tensor<5x8xf32>) -> tensor<5x8xf32>
  %p = graph.slice %d {starts = array<i64: 0, 4>, steps = array<i64: 1, 1>} : (tensor<5x8xf32>) -> tensor<5x4xf32>
  %l = graph.reduce_sum %p {dims = array<i64: 0, 1>} : (tensor<5x4xf32>) -> tensor<f32>
  return %l : tensor<f32>
}
