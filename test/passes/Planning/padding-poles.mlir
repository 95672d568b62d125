// 6 rows in 4 shards. What is divided by padding may be infinite or NaN there, and zero times infinity is NaN: zeros replace it at once, so
// that a product with padding is zero, and the sum over the rows reads it as it is. Numbers divide without this.
// RUN: divisi-opt %s --split-input-file --plan=mesh=data=4 | FileCheck %s

// CHECK-LABEL: func.func @train
// CHECK: %[[POLE:.*]] = graph.div
// CHECK: %[[MASKED:.*]] = graph.select %{{.*}}, %[[POLE]], %{{.*}}
// CHECK: %[[PRODUCT:.*]] = graph.matmul %[[MASKED]]
// CHECK-NOT: graph.select
// CHECK: graph.reduce_sum %[[PRODUCT]]
func.func @train(%w: tensor<2xf32> {graph.state = {name = "w", role = "parameter", trainable = true}}, %x: tensor<6x3x2xf32> {graph.input = "x"})
    -> (tensor<3x3xf32>, tensor<2xf32> {graph.renews = 0 : i64}) {
  %twice = graph.add %x, %x : tensor<6x3x2xf32>
  %root = graph.sqrt %twice : tensor<6x3x2xf32>
  %one = graph.broadcast %w {dims = array<i64: 2>} : (tensor<2xf32>) -> tensor<6x3x2xf32>
  %result = graph.div %one, %root : tensor<6x3x2xf32>
  %product = graph.matmul %result, %x {transpose_rhs} : (tensor<6x3x2xf32>, tensor<6x3x2xf32>) -> tensor<6x3x3xf32>
  %sum = graph.reduce_sum %product {dims = array<i64: 0>} : (tensor<6x3x3xf32>) -> tensor<3x3xf32>
  return %sum, %w : tensor<3x3xf32>, tensor<2xf32>
}

// -----

// A divisor that may be zero.
// CHECK-LABEL: func.func @train
// CHECK: %[[POLE:.*]] = graph.div
// CHECK: %[[MASKED:.*]] = graph.select %{{.*}}, %[[POLE]], %{{.*}}
// CHECK: %[[PRODUCT:.*]] = graph.matmul %[[MASKED]]
// CHECK-NOT: graph.select
// CHECK: graph.reduce_sum %[[PRODUCT]]
func.func @train(%w: tensor<2xf32> {graph.state = {name = "w", role = "parameter", trainable = true}}, %x: tensor<6x3x2xf32> {graph.input = "x"})
    -> (tensor<3x3xf32>, tensor<2xf32> {graph.renews = 0 : i64}) {
  %exp = graph.exp %x : tensor<6x3x2xf32>
  %one = graph.broadcast %w {dims = array<i64: 2>} : (tensor<2xf32>) -> tensor<6x3x2xf32>
  %apart = graph.sub %exp, %one : tensor<6x3x2xf32>
  %result = graph.div %one, %apart : tensor<6x3x2xf32>
  %product = graph.matmul %result, %x {transpose_rhs} : (tensor<6x3x2xf32>, tensor<6x3x2xf32>) -> tensor<6x3x3xf32>
  %sum = graph.reduce_sum %product {dims = array<i64: 0>} : (tensor<6x3x3xf32>) -> tensor<3x3xf32>
  return %sum, %w : tensor<3x3xf32>, tensor<2xf32>
}

// -----

// A negative power.
// CHECK-LABEL: func.func @train
// CHECK: %[[POLE:.*]] = graph.pow
// CHECK: %[[MASKED:.*]] = graph.select %{{.*}}, %[[POLE]], %{{.*}}
// CHECK: %[[PRODUCT:.*]] = graph.matmul %[[MASKED]]
// CHECK-NOT: graph.select
// CHECK: graph.reduce_sum %[[PRODUCT]]
func.func @train(%w: tensor<2xf32> {graph.state = {name = "w", role = "parameter", trainable = true}}, %x: tensor<6x3x2xf32> {graph.input = "x"})
    -> (tensor<3x3xf32>, tensor<2xf32> {graph.renews = 0 : i64}) {
  %one = graph.broadcast %w {dims = array<i64: 2>} : (tensor<2xf32>) -> tensor<6x3x2xf32>
  %result = graph.pow %x, %one : tensor<6x3x2xf32>
  %product = graph.matmul %result, %x {transpose_rhs} : (tensor<6x3x2xf32>, tensor<6x3x2xf32>) -> tensor<6x3x3xf32>
  %sum = graph.reduce_sum %product {dims = array<i64: 0>} : (tensor<6x3x3xf32>) -> tensor<3x3xf32>
  return %sum, %w : tensor<3x3xf32>, tensor<2xf32>
}

// -----

// A square root of what may be negative.
// CHECK-LABEL: func.func @train
// CHECK: %[[POLE:.*]] = graph.sqrt
// CHECK: %[[MASKED:.*]] = graph.select %{{.*}}, %[[POLE]], %{{.*}}
// CHECK: %[[PRODUCT:.*]] = graph.matmul %[[MASKED]]
// CHECK-NOT: graph.select
// CHECK: graph.reduce_sum %[[PRODUCT]]
func.func @train(%w: tensor<2xf32> {graph.state = {name = "w", role = "parameter", trainable = true}}, %x: tensor<6x3x2xf32> {graph.input = "x"})
    -> (tensor<3x3xf32>, tensor<2xf32> {graph.renews = 0 : i64}) {
  %one = graph.broadcast %w {dims = array<i64: 2>} : (tensor<2xf32>) -> tensor<6x3x2xf32>
  %apart = graph.sub %x, %one : tensor<6x3x2xf32>
  %result = graph.sqrt %apart : tensor<6x3x2xf32>
  %product = graph.matmul %result, %x {transpose_rhs} : (tensor<6x3x2xf32>, tensor<6x3x2xf32>) -> tensor<6x3x3xf32>
  %sum = graph.reduce_sum %product {dims = array<i64: 0>} : (tensor<6x3x3xf32>) -> tensor<3x3xf32>
  return %sum, %w : tensor<3x3xf32>, tensor<2xf32>
}

// -----

// CHECK-LABEL: func.func @train
// CHECK: %[[QUOTIENT:.*]] = graph.div
// CHECK: %[[PRODUCT:.*]] = graph.matmul %[[QUOTIENT]]
// CHECK-NOT: graph.select
// CHECK: graph.reduce_sum
func.func @train(%w: tensor<2xf32> {graph.state = {name = "w", role = "parameter", trainable = true}}, %x: tensor<6x3x2xf32> {graph.input = "x"})
    -> (tensor<3x3xf32>, tensor<2xf32> {graph.renews = 0 : i64}) {
  %two = graph.constant dense<2.0> : tensor<6x3x2xf32>
  %one = graph.broadcast %w {dims = array<i64: 2>} : (tensor<2xf32>) -> tensor<6x3x2xf32>
  %scaled = graph.mul %one, %x : tensor<6x3x2xf32>
  %result = graph.div %scaled, %two : tensor<6x3x2xf32>
  %product = graph.matmul %result, %x {transpose_rhs} : (tensor<6x3x2xf32>, tensor<6x3x2xf32>) -> tensor<6x3x3xf32>
  %sum = graph.reduce_sum %product {dims = array<i64: 0>} : (tensor<6x3x3xf32>) -> tensor<3x3xf32>
  return %sum, %w : tensor<3x3xf32>, tensor<2xf32>
}
