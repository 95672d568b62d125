// RUN: divisi-opt %s | divisi-opt | FileCheck %s

// CHECK: module attributes {exec.arena_bytes = 4096 : i64}
module attributes {exec.arena_bytes = 4096 : i64} {
  // CHECK-LABEL: func.func @task(%arg0: tensor<4x6xf32> {exec.offset = 0 : i64})
  func.func @task(%x: tensor<4x6xf32> {exec.offset = 0 : i64}) -> (tensor<4xf32> {exec.offset = 192 : i64}) {
    // CHECK: %[[K:.*]]:2 = exec.kernel rows 4{{ ?}}(%arg0) {batch = 3 : i64, offsets = array<i64: 128, 192>, when = 2 : i64} : (tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<4xf32>) {
    %0:2 = exec.kernel rows 4 (%x) {batch = 3 : i64, offsets = array<i64: 128, 192>, when = 2 : i64} : (tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<4xf32>) {
    // CHECK: ^bb0(%[[X:.*]]: tensor<4x6xf32>):
    ^bb0(%a: tensor<4x6xf32>):
      // CHECK: graph.exp %[[X]] {exec.stage} : tensor<4x6xf32>
      %1 = graph.exp %a {exec.stage} : tensor<4x6xf32>
      %2 = graph.reduce_sum %1 {dims = array<i64: 1>, exec.stage} : (tensor<4x6xf32>) -> tensor<4xf32>
      // CHECK: exec.yield %{{.*}}, %{{.*}} : tensor<4x6xf32>, tensor<4xf32>
      exec.yield %1, %2 : tensor<4x6xf32>, tensor<4xf32>
    }
    // CHECK: exec.call graph.matmul {transpose_rhs} (%[[K]]#0, %[[K]]#0) {offsets = array<i64: 256>} : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x4xf32>
    %3 = exec.call graph.matmul {transpose_rhs} (%0#0, %0#0) {offsets = array<i64: 256>} : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x4xf32>
    // CHECK: exec.call graph.matmul (%[[K]]#0, %{{.*}}) workspace {offsets = array<i64: 256, 512>} : (tensor<4x6xf32>, tensor<6x4xf32>) -> (tensor<4x4xf32>, tensor<64xi8>)
    %y = graph.reshape %0#0 : (tensor<4x6xf32>) -> tensor<6x4xf32>
    %w:2 = exec.call graph.matmul (%0#0, %y) workspace {offsets = array<i64: 256, 512>} : (tensor<4x6xf32>, tensor<6x4xf32>) -> (tensor<4x4xf32>, tensor<64xi8>)
    // CHECK: exec.call dist.send {id = 7 : i64, stage = 1 : i64} (%[[K]]#1) {id = 7 : i64, label = "send of fc1"} : (tensor<4xf32>) -> ()
    exec.call dist.send {id = 7 : i64, stage = 1 : i64} (%0#1) {id = 7 : i64, label = "send of fc1"} : (tensor<4xf32>) -> ()
    // CHECK: %[[C:.*]] = exec.copy %[[K]]#1 {offsets = array<i64: 512>} : (tensor<4xf32>) -> tensor<4xf32>
    %4 = exec.copy %0#1 {offsets = array<i64: 512>} : (tensor<4xf32>) -> tensor<4xf32>
    // CHECK: return %[[C]]
    return %4 : tensor<4xf32>
  }
}
