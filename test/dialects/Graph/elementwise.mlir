// RUN: divisi-opt %s | divisi-opt | FileCheck %s
// RUN: divisi-opt %s --mlir-print-op-generic | divisi-opt | FileCheck %s

// CHECK-LABEL: func.func @unary
func.func @unary(%x: tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<4x6xf64>) {
  // CHECK: graph.neg %{{.*}} : tensor<4x6xf32>
  %0 = graph.neg %x : tensor<4x6xf32>
  // CHECK: graph.softplus %{{.*}} : tensor<4x6xf32>
  %1 = graph.softplus %0 : tensor<4x6xf32>
  // CHECK: graph.gelu %{{.*}} : tensor<4x6xf32>
  %2 = graph.gelu %1 : tensor<4x6xf32>
  // CHECK: graph.gelu %{{.*}} {tanh} : tensor<4x6xf32>
  %3 = graph.gelu %2 {tanh} : tensor<4x6xf32>
  // CHECK: graph.cast %{{.*}} : (tensor<4x6xf32>) -> tensor<4x6xf64>
  %4 = graph.cast %3 : (tensor<4x6xf32>) -> tensor<4x6xf64>
  return %3, %4 : tensor<4x6xf32>, tensor<4x6xf64>
}

// CHECK-LABEL: func.func @binary
func.func @binary(%x: tensor<4xf32>, %y: tensor<4xf32>, %i: tensor<4xi64>) -> (tensor<4xf32>, tensor<4xi64>) {
  // CHECK: graph.add %arg0, %arg1 : tensor<4xf32>
  %0 = graph.add %x, %y : tensor<4xf32>
  // CHECK: graph.pow
  %1 = graph.pow %0, %y : tensor<4xf32>
  // CHECK: graph.compare {{ ?}}le %{{.*}}, %arg1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  %2 = graph.compare le %1, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  // CHECK: graph.not %{{.*}} : tensor<4xi1>
  %3 = graph.not %2 : tensor<4xi1>
  // CHECK: graph.select %{{.*}} : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %4 = graph.select %3, %0, %1 : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK: graph.shift_right %arg2, %arg2 : tensor<4xi64>
  %5 = graph.shift_right %i, %i : tensor<4xi64>
  return %4, %5 : tensor<4xf32>, tensor<4xi64>
}

// Two uses of one value are one operation after cse: the operations are pure.
// RUN: divisi-opt %s --cse | FileCheck %s --check-prefix=CSE
// CSE-LABEL: func.func @common
// CSE-NEXT: %[[E:.*]] = graph.exp
// CSE-NEXT: graph.add %[[E]], %[[E]]
func.func @common(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.exp %x : tensor<4xf32>
  %1 = graph.exp %x : tensor<4xf32>
  %2 = graph.add %0, %1 : tensor<4xf32>
  return %2 : tensor<4xf32>
}
