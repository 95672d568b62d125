// RUN: divisi-opt %s --decompose | FileCheck %s
// RUN: divisi-opt %s --decompose --canonicalize --cse | FileCheck %s --check-prefix=SHARED

// CHECK-LABEL: func.func @softmax
// CHECK: %[[MAX:.*]] = graph.reduce_max %arg0 {dims = array<i64: 1>} : (tensor<4x6xf32>) -> tensor<4xf32>
// CHECK: %[[LARGEST:.*]] = graph.broadcast %[[MAX]] {dims = array<i64: 0>}
// CHECK: %[[SHIFTED:.*]] = graph.sub %arg0, %[[LARGEST]]
// CHECK: %[[E:.*]] = graph.exp %[[SHIFTED]]
// CHECK: %[[SUM:.*]] = graph.reduce_sum %[[E]] {dims = array<i64: 1>}
// CHECK: %[[INVERSE:.*]] = graph.reciprocal %[[SUM]] : tensor<4xf32>
// CHECK: %[[EACH:.*]] = graph.broadcast %[[INVERSE]]
// CHECK: %[[Y:.*]] = graph.mul %[[E]], %[[EACH]]
// CHECK: return %[[Y]]
func.func @softmax(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %0 = graph.softmax %x {dim = 1 : i64} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// No composite operation is left, nested or not.
// CHECK-LABEL: func.func @all
// CHECK-NOT: graph.{{log_softmax|layer_norm|rms_norm|batch_norm|cross_entropy|gelu|dropout}}
// CHECK: return
func.func @all(%x: tensor<4x6xf32>, %s: tensor<6xf32>, %l: tensor<4xi64>, %r: tensor<i64>) -> (tensor<4xf32>, tensor<4x6xf32>) {
  %0 = graph.layer_norm %x, %s, %s {dim = 1 : i64, epsilon = 1.0e-5 : f64} : (tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  %1 = graph.rms_norm %0, %s {dim = 1 : i64, epsilon = 1.0e-5 : f64} : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  %2, %m, %v = graph.batch_norm %1, %s, %s {dim = 1 : i64, epsilon = 1.0e-5 : f64} : (tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>) -> (tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>)
  %3 = graph.gelu %2 {tanh} : tensor<4x6xf32>
  %4 = graph.dropout %3, %r, %r {ratio = 0.5 : f64, stream = 0 : i64} : (tensor<4x6xf32>, tensor<i64>, tensor<i64>) -> tensor<4x6xf32>
  %5 = graph.log_softmax %4 {dim = 1 : i64} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %6 = graph.cross_entropy %4, %l : (tensor<4x6xf32>, tensor<4xi64>) -> tensor<4xf32>
  return %6, %5 : tensor<4xf32>, tensor<4x6xf32>
}

// A loss and its gradient share the maximum and the exponentials.
// SHARED-LABEL: func.func @common
// SHARED-COUNT-1: graph.reduce_max
// SHARED-NOT: graph.reduce_max
// SHARED-COUNT-1: graph.exp
// SHARED-NOT: graph.exp
// SHARED: return
func.func @common(%x: tensor<4x6xf32>, %l: tensor<4xi64>) -> (tensor<4xf32>, tensor<4x6xf32>) {
  %0 = graph.cross_entropy %x, %l : (tensor<4x6xf32>, tensor<4xi64>) -> tensor<4xf32>
  %1 = graph.softmax %x {dim = 1 : i64} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0, %1 : tensor<4xf32>, tensor<4x6xf32>
}

// The variance of a sample is that of each group's own n: 4 rows in 2 groups have n / (n - 1) = 2.
// CHECK-LABEL: func @variances_of_samples
// CHECK: graph.constant dense<2.000000e+00> : tensor<2x6xf32>
func.func @variances_of_samples(%x: tensor<4x6xf32>, %s: tensor<6xf32>, %b: tensor<6xf32>) -> tensor<6xf32> {
  %y, %mean, %variance = graph.batch_norm %x, %s, %b {dim = 1 : i64, epsilon = 1.0e-5 : f64, groups = 2 : i64, sample}
    : (tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>) -> (tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>)
  return %variance : tensor<6xf32>
}
