// RUN: divisi-opt %s | divisi-opt | FileCheck %s

// CHECK-LABEL: func.func @norms
func.func @norms(%x: tensor<4x6xf32>, %s: tensor<6xf32>, %b: tensor<6xf32>, %l: tensor<4xi64>) -> (tensor<4xf32>, tensor<6xf32>) {
  // CHECK: graph.softmax %arg0 {dim = 1 : i64} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %0 = graph.softmax %x {dim = 1 : i64} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  // CHECK: graph.log_softmax %{{.*}} {dim = 0 : i64} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %1 = graph.log_softmax %0 {dim = 0 : i64} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  // CHECK: graph.layer_norm %{{.*}}, %arg1, %arg2 {dim = 1 : i64, epsilon = 1.000000e-05 : f64}
  %2 = graph.layer_norm %1, %s, %b {dim = 1 : i64, epsilon = 1.0e-5 : f64} : (tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  // CHECK: graph.rms_norm %{{.*}}, %arg1 {dim = 1 : i64, epsilon = 1.000000e-05 : f64}
  %3 = graph.rms_norm %2, %s {dim = 1 : i64, epsilon = 1.0e-5 : f64} : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  // CHECK: graph.batch_norm %{{.*}}, %arg1, %arg2, %arg1, %arg2 {dim = 1 : i64, epsilon = 1.000000e-05 : f64}
  %4, %mean, %variance = graph.batch_norm %3, %s, %b, %s, %b {dim = 1 : i64, epsilon = 1.0e-5 : f64} : (tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>) -> (tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>)
  // CHECK: graph.cross_entropy %{{.*}}, %arg3 : (tensor<4x6xf32>, tensor<4xi64>) -> tensor<4xf32>
  %5 = graph.cross_entropy %4, %l : (tensor<4x6xf32>, tensor<4xi64>) -> tensor<4xf32>
  return %5, %mean : tensor<4xf32>, tensor<6xf32>
}
