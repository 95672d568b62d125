// RUN: divisi-opt %s --separate-replicas --split-input-file | FileCheck %s

// A replica computes what it would if the others had its own rows: a sum over the n replicas is n times its operand, a maximum is the operand.
// Sums over other axes stay, and so do those of the evaluation.
// CHECK-LABEL: module
module attributes {dist.sync = {every = 2 : i64, mode = "local"}} {
  // CHECK-LABEL: func.func @train
  func.func @train(%x: tensor<8x4xf32> {dist.global = tensor<16x4xf32, #dist.shard<"data", _>>, graph.input = "x"},
      %w: tensor<4xf32> {graph.state = {name = "w", role = "parameter"}}) -> (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<16x4xf32>)
      attributes {dist.partitioned = #dist.mesh<"data" = 2, "model" = 2>} {
    // CHECK: %[[TWO:.*]] = graph.constant dense<2.000000e+00> : tensor<8x4xf32>
    // CHECK: %[[A:.*]] = graph.mul %arg0, %[[TWO]]
    %a = dist.all_reduce sum over ["data"] %x : (tensor<8x4xf32>) -> tensor<8x4xf32>
    // CHECK: %[[M:.*]] = dist.all_reduce sum over ["model"] %arg1
    // CHECK: %[[B:.*]] = graph.mul %[[M]],
    %b = dist.all_reduce sum over ["data", "model"] %w : (tensor<4xf32>) -> tensor<4xf32>
    %c = dist.all_reduce max over ["data"] %w : (tensor<4xf32>) -> tensor<4xf32>
    // CHECK: %[[D:.*]] = graph.concat %arg0, %arg0 {dim = 0 : i64}
    %d = dist.all_gather %x dim 0 over ["data"] : tensor<8x4xf32> -> tensor<16x4xf32>
    // CHECK: return %[[A]], %[[B]], %arg1, %[[D]]
    return %a, %b, %c, %d : tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<16x4xf32>
  }
  // CHECK-LABEL: func.func @evaluate
  func.func @evaluate(%w: tensor<4xf32> {graph.state = {name = "w", role = "parameter"}}) -> tensor<4xf32>
      attributes {dist.partitioned = #dist.mesh<"data" = 2, "model" = 2>} {
    // CHECK: dist.all_reduce sum over ["data"] %arg0
    %a = dist.all_reduce sum over ["data"] %w : (tensor<4xf32>) -> tensor<4xf32>
    return %a : tensor<4xf32>
  }
}

// -----

// Without the attribute nothing changes.
// CHECK-LABEL: func.func @train
func.func @train(%w: tensor<4xf32>) -> tensor<4xf32> attributes {dist.partitioned = #dist.mesh<"data" = 2>} {
  // CHECK: dist.all_reduce sum over ["data"]
  %a = dist.all_reduce sum over ["data"] %w : (tensor<4xf32>) -> tensor<4xf32>
  return %a : tensor<4xf32>
}
