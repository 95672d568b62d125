// 6 rows in 4 shards. What is divided by padding is infinite or NaN there, and zero times infinity is NaN: the sum over the rows
// masks it, though one factor of the product is zero in its padding. A divisor that is not zero there leaves the product zero,
// which is read as it is.
// RUN: divisi-opt %s --split-input-file --plan=mesh=data=4 | FileCheck %s

// CHECK-LABEL: func.func @train
// CHECK: %[[POLE:.*]] = graph.div
// CHECK: %[[PRODUCT:.*]] = graph.matmul %[[POLE]]
// CHECK: %[[MASKED:.*]] = graph.select %{{.*}}, %[[PRODUCT]], %{{.*}}
// CHECK: graph.reduce_sum %[[MASKED]]
func.func @train(%w: tensor<2xf32> {graph.state = {name = "w", role = "parameter", trainable = true}}, %x: tensor<6x3x2xf32> {graph.input = "x"})
    -> (tensor<3x3xf32>, tensor<2xf32> {graph.renews = 0 : i64}) {
  %twice = graph.add %x, %x : tensor<6x3x2xf32>
  %root = graph.sqrt %twice : tensor<6x3x2xf32>
  %one = graph.broadcast %w {dims = array<i64: 2>} : (tensor<2xf32>) -> tensor<6x3x2xf32>
  %pole = graph.div %one, %root : tensor<6x3x2xf32>
  %product = graph.matmul %pole, %x {transpose_rhs} : (tensor<6x3x2xf32>, tensor<6x3x2xf32>) -> tensor<6x3x3xf32>
  %sum = graph.reduce_sum %product {dims = array<i64: 0>} : (tensor<6x3x3xf32>) -> tensor<3x3xf32>
  return %sum, %w : tensor<3x3xf32>, tensor<2xf32>
}

// -----

// CHECK-LABEL: func.func @train
// CHECK: %[[QUOTIENT:.*]] = graph.div
// CHECK: %[[PRODUCT:.*]] = graph.matmul %[[QUOTIENT]]
// CHECK-NOT: graph.select
// CHECK: graph.reduce_sum %[[PRODUCT]]
func.func @train(%w: tensor<2xf32> {graph.state = {name = "w", role = "parameter", trainable = true}}, %x: tensor<6x3x2xf32> {graph.input = "x"})
    -> (tensor<3x3xf32>, tensor<2xf32> {graph.renews = 0 : i64}) {
  %one = graph.broadcast %w {dims = array<i64: 2>} : (tensor<2xf32>) -> tensor<6x3x2xf32>
  %quotient = graph.div %one, %one : tensor<6x3x2xf32>
  %product = graph.matmul %quotient, %x {transpose_rhs} : (tensor<6x3x2xf32>, tensor<6x3x2xf32>) -> tensor<6x3x3xf32>
  %sum = graph.reduce_sum %product {dims = array<i64: 0>} : (tensor<6x3x3xf32>) -> tensor<3x3xf32>
  return %sum, %w : tensor<3x3xf32>, tensor<2xf32>
}

// -----

// What keeps zero is followed to the division.
// CHECK-LABEL: func.func @train
// CHECK: %[[POLE:.*]] = graph.div
// CHECK: %[[PRODUCT:.*]] = graph.matmul %[[POLE]]
// CHECK: %[[MASKED:.*]] = graph.select %{{.*}}, %[[PRODUCT]], %{{.*}}
// CHECK: graph.reduce_sum %[[MASKED]]
func.func @train(%w: tensor<2xf32> {graph.state = {name = "w", role = "parameter", trainable = true}}, %x: tensor<6x3x2xf32> {graph.input = "x"})
    -> (tensor<3x3xf32>, tensor<2xf32> {graph.renews = 0 : i64}) {
  %relu = graph.relu %x : tensor<6x3x2xf32>
  %small = graph.cast %relu : (tensor<6x3x2xf32>) -> tensor<6x3x2xf16>
  %tanh = graph.tanh %small : tensor<6x3x2xf16>
  %keeps = graph.cast %tanh : (tensor<6x3x2xf16>) -> tensor<6x3x2xf32>
  %one = graph.broadcast %w {dims = array<i64: 2>} : (tensor<2xf32>) -> tensor<6x3x2xf32>
  %pole = graph.div %one, %keeps : tensor<6x3x2xf32>
  %product = graph.matmul %pole, %x {transpose_rhs} : (tensor<6x3x2xf32>, tensor<6x3x2xf32>) -> tensor<6x3x3xf32>
  %sum = graph.reduce_sum %product {dims = array<i64: 0>} : (tensor<6x3x3xf32>) -> tensor<3x3xf32>
  return %sum, %w : tensor<3x3xf32>, tensor<2xf32>
}

// -----

// A negative power of padding is infinite, too.
// CHECK-LABEL: func.func @train
// CHECK: %[[POWER:.*]] = graph.pow
// CHECK: %[[PRODUCT:.*]] = graph.matmul %[[POWER]]
// CHECK: %[[MASKED:.*]] = graph.select %{{.*}}, %[[PRODUCT]], %{{.*}}
// CHECK: graph.reduce_sum %[[MASKED]]
func.func @train(%w: tensor<2xf32> {graph.state = {name = "w", role = "parameter", trainable = true}}, %x: tensor<6x3x2xf32> {graph.input = "x"})
    -> (tensor<3x3xf32>, tensor<2xf32> {graph.renews = 0 : i64}) {
  %one = graph.broadcast %w {dims = array<i64: 2>} : (tensor<2xf32>) -> tensor<6x3x2xf32>
  %power = graph.pow %x, %one : tensor<6x3x2xf32>
  %product = graph.matmul %power, %x {transpose_rhs} : (tensor<6x3x2xf32>, tensor<6x3x2xf32>) -> tensor<6x3x3xf32>
  %sum = graph.reduce_sum %product {dims = array<i64: 0>} : (tensor<6x3x3xf32>) -> tensor<3x3xf32>
  return %sum, %w : tensor<3x3xf32>, tensor<2xf32>
}
