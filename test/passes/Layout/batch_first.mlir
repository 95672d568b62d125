// RUN: divisi-opt %s --batch-first --canonicalize --split-input-file | FileCheck %s

// What nn.MultiheadAttention does around its projections: the rows of the matmul are ordered by sample, and no transpose is left.
// CHECK-LABEL: func.func @loss
// CHECK-NOT: graph.transpose
// CHECK: graph.reshape %arg0 : (tensor<4x3x8xf32>) -> tensor<12x8xf32>
// CHECK-NEXT: graph.matmul
// CHECK-NEXT: graph.broadcast
// CHECK-NEXT: graph.add
// CHECK-NEXT: graph.gelu
// CHECK-NEXT: graph.reshape {{.*}} -> tensor<4x3x5xf32>
// CHECK-NEXT: return
func.func @loss(%x: tensor<4x3x8xf32> {graph.input = "x"}, %w: tensor<8x5xf32> {graph.state = "w"}, %b: tensor<5xf32> {graph.state = "b"}) -> tensor<4x3x5xf32> {
  %0 = graph.transpose %x {permutation = array<i64: 1, 0, 2>} : (tensor<4x3x8xf32>) -> tensor<3x4x8xf32>
  %1 = graph.reshape %0 : (tensor<3x4x8xf32>) -> tensor<12x8xf32>
  %2 = graph.matmul %1, %w : (tensor<12x8xf32>, tensor<8x5xf32>) -> tensor<12x5xf32>
  %3 = graph.broadcast %b {dims = array<i64: 1>} : (tensor<5xf32>) -> tensor<12x5xf32>
  %4 = graph.add %2, %3 : tensor<12x5xf32>
  %5 = graph.gelu %4 : tensor<12x5xf32>
  %6 = graph.reshape %5 : (tensor<12x5xf32>) -> tensor<3x4x5xf32>
  %7 = graph.transpose %6 {permutation = array<i64: 1, 0, 2>} : (tensor<3x4x5xf32>) -> tensor<4x3x5xf32>
  return %7 : tensor<4x3x5xf32>
}

// -----

// The dimension is summed over: both operands have the batch in front, and the order of the result does not matter.
// CHECK-LABEL: func.func @loss
// CHECK: %[[LABEL:.*]] = graph.transpose %arg1 {permutation = array<i64: 1, 0>} : (tensor<3x4xf32>)
// CHECK-NEXT: %[[LABELS:.*]] = graph.reshape %[[LABEL]] : (tensor<4x3xf32>) -> tensor<12xf32>
// CHECK-NEXT: graph.mul %{{.*}}, %[[LABELS]]
// CHECK-NEXT: graph.reduce_sum
// CHECK-NEXT: return
func.func @loss(%x: tensor<4x3xf32> {graph.input = "x"}, %y: tensor<3x4xf32> {graph.state = "y"}) -> tensor<f32> {
  %0 = graph.transpose %x {permutation = array<i64: 1, 0>} : (tensor<4x3xf32>) -> tensor<3x4xf32>
  %1 = graph.reshape %0 : (tensor<3x4xf32>) -> tensor<12xf32>
  %2 = graph.reshape %y : (tensor<3x4xf32>) -> tensor<12xf32>
  %3 = graph.mul %1, %2 : tensor<12xf32>
  %4 = graph.reduce_sum %3 {dims = array<i64: 0>} : (tensor<12xf32>) -> tensor<f32>
  return %4 : tensor<f32>
}

// -----

// A sum that runs along the dimension needs its order, and so does the caller.
// CHECK-LABEL: func.func @loss
// CHECK: %[[ORDER:.*]] = graph.transpose %arg0 {permutation = array<i64: 1, 0>}
// CHECK-NEXT: %[[ROWS:.*]] = graph.reshape %[[ORDER]] {{.*}} -> tensor<12xf32>
// CHECK-NEXT: graph.cumsum %[[ROWS]]
func.func @loss(%x: tensor<4x3xf32> {graph.input = "x"}) -> tensor<12xf32> {
  %0 = graph.transpose %x {permutation = array<i64: 1, 0>} : (tensor<4x3xf32>) -> tensor<3x4xf32>
  %1 = graph.reshape %0 : (tensor<3x4xf32>) -> tensor<12xf32>
  %2 = graph.cumsum %1 {dim = 0 : i64} : (tensor<12xf32>) -> tensor<12xf32>
  return %2 : tensor<12xf32>
}

// -----

// Learned queries are repeated for each sample behind the tokens: the rows of the matmul are ordered by sample.
// CHECK-LABEL: func.func @loss
// CHECK: %[[ROWS:.*]] = graph.reshape %{{.*}} : (tensor<4x3x8xf32>) -> tensor<12x8xf32>
// CHECK-NEXT: graph.matmul %[[ROWS]]
// CHECK-NEXT: graph.reshape {{.*}} -> tensor<4x3x5xf32>
func.func @loss(%x: tensor<4x3x5xf32> {graph.input = "x"}, %q: tensor<3x8xf32> {graph.state = "q"}, %w: tensor<8x5xf32> {graph.state = "w"}) -> tensor<4x3x5xf32> {
  %0 = graph.broadcast %q {dims = array<i64: 0, 2>} : (tensor<3x8xf32>) -> tensor<3x4x8xf32>
  %1 = graph.reshape %0 : (tensor<3x4x8xf32>) -> tensor<12x8xf32>
  %2 = graph.matmul %1, %w : (tensor<12x8xf32>, tensor<8x5xf32>) -> tensor<12x5xf32>
  %3 = graph.reshape %2 : (tensor<12x5xf32>) -> tensor<3x4x5xf32>
  %4 = graph.transpose %3 {permutation = array<i64: 1, 0, 2>} : (tensor<3x4x5xf32>) -> tensor<4x3x5xf32>
  %5 = graph.mul %4, %x : tensor<4x3x5xf32>
  return %5 : tensor<4x3x5xf32>
}

// -----

// A mask of positions, in a sequence as long as the batch, is repeated, too. The scores say where the batch is: the merge is left as it is.
// CHECK-LABEL: func.func @loss
// CHECK-NOT: graph.transpose
// CHECK: graph.reshape %{{.*}} : (tensor<4x4x4xf32>) -> tensor<16x4xf32>
// CHECK-NOT: graph.transpose
// CHECK: return
func.func @loss(%scores: tensor<4x4x4xf32> {graph.input = "scores"}) -> tensor<16x4xf32> {
  %0 = graph.iota {dim = 0 : i64} : tensor<4xi64>
  %1 = graph.broadcast %0 {dims = array<i64: 0>} : (tensor<4xi64>) -> tensor<4x4xi64>
  %2 = graph.broadcast %0 {dims = array<i64: 1>} : (tensor<4xi64>) -> tensor<4x4xi64>
  %3 = graph.compare gt %2, %1 : (tensor<4x4xi64>, tensor<4x4xi64>) -> tensor<4x4xi1>
  %4 = graph.broadcast %3 {dims = array<i64: 1, 2>} : (tensor<4x4xi1>) -> tensor<4x4x4xi1>
  %5 = graph.constant dense<-1.000000e+09> : tensor<4x4x4xf32>
  %6 = graph.select %4, %5, %scores : (tensor<4x4x4xi1>, tensor<4x4x4xf32>, tensor<4x4x4xf32>) -> tensor<4x4x4xf32>
  %7 = graph.reshape %6 : (tensor<4x4x4xf32>) -> tensor<16x4xf32>
  %8 = graph.softmax %7 {dim = 1 : i64} : (tensor<16x4xf32>) -> tensor<16x4xf32>
  return %8 : tensor<16x4xf32>
}
