// RUN: divisi-opt %s | divisi-opt | FileCheck %s

// CHECK: module attributes {exec.arena_bytes = 4096 : i64}
module attributes {exec.arena_bytes = 4096 : i64} {
  // CHECK-LABEL: func.func @task(%arg0: tensor<4x6xf32> {exec.offset = 0 : i64})
  func.func @task(%x: tensor<4x6xf32> {exec.offset = 0 : i64}) -> (tensor<4xf32> {exec.offset = 192 : i64}) {
    // CHECK: %[[K:.*]]:2 = exec.kernel rows 4{{ ?}}(%arg0) {exec.when = 2 : i64, offsets = array<i64: 128, 192>} : (tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<4xf32>) {
    %0:2 = exec.kernel rows 4 (%x) {exec.when = 2 : i64, offsets = array<i64: 128, 192>} : (tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<4xf32>) {
    // CHECK: ^bb0(%[[X:.*]]: tensor<4x6xf32>):
    ^bb0(%a: tensor<4x6xf32>):
      // CHECK: graph.exp %[[X]] {exec.stage} : tensor<4x6xf32>
      %1 = graph.exp %a {exec.stage} : tensor<4x6xf32>
      %2 = graph.reduce_sum %1 {dims = array<i64: 1>, exec.stage} : (tensor<4x6xf32>) -> tensor<4xf32>
      // CHECK: exec.yield %{{.*}}, %{{.*}} : tensor<4x6xf32>, tensor<4xf32>
      exec.yield %1, %2 : tensor<4x6xf32>, tensor<4xf32>
    }
    // CHECK: exec.call "divisi_gemm"(%[[K]]#0, %[[K]]#0) [1, -2, 3] {offsets = array<i64: 256>} : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x4xf32>
    %3 = exec.call "divisi_gemm" (%0#0, %0#0) [1, -2, 3] {offsets = array<i64: 256>} : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x4xf32>
    // CHECK: %[[C:.*]] = exec.copy %[[K]]#1 {offsets = array<i64: 512>} : (tensor<4xf32>) -> tensor<4xf32>
    %4 = exec.copy %0#1 {offsets = array<i64: 512>} : (tensor<4xf32>) -> tensor<4xf32>
    // CHECK: return %[[C]]
    return %4 : tensor<4xf32>
  }
}
