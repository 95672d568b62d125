// RUN: divisi-opt %s --form-kernels --assign-buffers --split-input-file | FileCheck %s
// RUN: divisi-opt %s --form-kernels=for-gpu --assign-buffers --split-input-file | FileCheck %s --check-prefix GPU

// State, inputs and scalars have one place in all tasks (multiples of 64), and renewed state replaces the old one in its place.
// CHECK: module attributes {exec.arena_bytes = [[BYTES:[0-9]+]] : i64}
// CHECK: func.func @train(%arg0: tensor<6x8xf32> {exec.offset = 0 : i64, graph.state = {name = "w"
// CHECK-SAME: %arg1: tensor<6x8xf32> {exec.offset = 192 : i64, graph.input = "x"}
// CHECK-SAME: %arg2: tensor<f32> {exec.offset = 384 : i64, graph.scalar = "learning_rate"}
// CHECK-SAME: -> (tensor<6x8xf32> {exec.offset = 0 : i64, graph.renews = "w"})
// CHECK: exec.kernel {{.*}} {offsets = array<i64: 0>}
// CHECK: func.func @evaluate(%arg0: tensor<6x8xf32> {exec.offset = 192 : i64, graph.input = "x"},
// CHECK-SAME: %arg1: tensor<6x8xf32> {exec.offset = 0 : i64, graph.state = {name = "w"
// CHECK-SAME: -> (tensor<f32> {exec.offset = 448 : i64, graph.result = {kind = "loss"}})
module {
  func.func @train(%w: tensor<6x8xf32> {graph.state = {name = "w", role = "parameter"}}, %x: tensor<6x8xf32> {graph.input = "x"},
                   %r: tensor<f32> {graph.scalar = "learning_rate"}) -> (tensor<6x8xf32> {graph.renews = "w"}) {
    %0 = graph.broadcast %r {dims = array<i64>} : (tensor<f32>) -> tensor<6x8xf32>
    %1 = graph.mul %0, %x : tensor<6x8xf32>
    %2 = graph.sub %w, %1 : tensor<6x8xf32>
    return %2 : tensor<6x8xf32>
  }
  func.func @evaluate(%x: tensor<6x8xf32> {graph.input = "x"}, %w: tensor<6x8xf32> {graph.state = {name = "w", role = "parameter"}}) -> (tensor<f32> {graph.result = {kind = "loss"}}) {
    %0 = graph.mul %w, %x : tensor<6x8xf32>
    %1 = graph.reduce_sum %0 {dims = array<i64: 0, 1>} : (tensor<6x8xf32>) -> tensor<f32>
    return %1 : tensor<f32>
  }
}

// -----

// New state whose kernel reads the old one at another index (transposed) is computed elsewhere, then copied.
// CHECK: func.func @train
// CHECK: %[[NEW:.*]] = exec.kernel {{.*}} {offsets = array<i64: 64>}
// CHECK: %[[COPY:.*]] = exec.copy %[[NEW]] {offsets = array<i64: 0>}
// CHECK: return %[[COPY]]
func.func @train(%w: tensor<4x4xf32> {graph.state = {name = "w", role = "parameter"}}) -> (tensor<4x4xf32> {graph.renews = "w"}) {
  %0 = graph.transpose %w {permutation = array<i64: 1, 0>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = graph.add %w, %0 : tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}

// -----

// So is new state if the old value has a later use.
// CHECK: func.func @train
// CHECK: exec.copy
// CHECK: return
func.func @train(%w: tensor<64x64xf32> {graph.state = {name = "w", role = "parameter"}}) -> (tensor<64x64xf32> {graph.renews = "w"}, tensor<64x64xf32> {graph.result = {kind = "loss"}}) {
  %0 = graph.neg %w : tensor<64x64xf32>
  %1 = graph.matmul %0, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %0, %1 : tensor<64x64xf32>, tensor<64x64xf32>
}

// -----

// Buffers are reused after the last use, by elementwise kernels immediately: two buffers are enough for a chain of matmuls
// with an activation between them.
// CHECK: module attributes {exec.arena_bytes = 49152 : i64}
// CHECK: exec.call {{.*}} {offsets = array<i64: [[A:[0-9]+]]>}
// CHECK: exec.kernel {{.*}} {offsets = array<i64: [[A]]>}
// CHECK: exec.call {{.*}} {offsets = array<i64: [[B:[0-9]+]]>}
// CHECK: exec.kernel {{.*}} {offsets = array<i64: [[B]]>}
// CHECK: exec.call {{.*}} {offsets = array<i64: [[A]]>}
func.func @chain(%x: tensor<64x64xf32> {graph.input = "x"}) -> (tensor<64x64xf32> {graph.result = {kind = "loss"}}) {
  %0 = graph.matmul %x, %x : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = graph.relu %0 : tensor<64x64xf32>
  %2 = graph.matmul %1, %x : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %3 = graph.relu %2 : tensor<64x64xf32>
  %4 = graph.matmul %3, %x : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %4 : tensor<64x64xf32>
}

// -----

// A reshape is a view of the same buffer: it has no buffer of its own, and extends the live range.
// CHECK: module attributes {exec.arena_bytes = 49152 : i64}
// CHECK: exec.call {{.*}} {offsets = array<i64: 16384>}
// CHECK: graph.reshape
// CHECK-NOT: offsets
// CHECK: exec.call {{.*}} {offsets = array<i64: 32768>}
func.func @view(%x: tensor<64x64xf32> {graph.input = "x"}) -> (tensor<4096xf32> {graph.result = {kind = "loss"}}) {
  %0 = graph.matmul %x, %x : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = graph.reshape %0 : (tensor<64x64xf32>) -> tensor<1x4096xf32>
  %2 = graph.reshape %1 : (tensor<1x4096xf32>) -> tensor<64x64xf32>
  %3 = graph.matmul %2, %0 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %4 = graph.reshape %3 : (tensor<64x64xf32>) -> tensor<4096xf32>
  return %4 : tensor<4096xf32>
}

// -----

// A materialized value that is read at another index ends the pass over the elements, which would otherwise overwrite it.
// CHECK: func.func @train
// CHECK: %[[NEW:.*]]:2 = exec.kernel
// CHECK: %[[COPY:.*]] = exec.copy %[[NEW]]#0 {offsets = array<i64: 0>}
// CHECK: return %[[COPY]], %[[NEW]]#1
func.func @train(%w: tensor<4x4xf32> {graph.state = {name = "w", role = "parameter"}}, %x: tensor<4x4xf32> {graph.input = "x"}) -> (tensor<4x4xf32> {graph.renews = "w"}, tensor<4x4xf32> {graph.result = {kind = "loss"}}) {
  %0 = graph.tanh %x : tensor<4x4xf32>
  %1 = graph.transpose %0 {permutation = array<i64: 1, 0>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = graph.add %1, %w : tensor<4x4xf32>
  return %0, %2 : tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

// Materialized values with other loops, even with equally many elements, are another pass: the first must not overwrite its input.
// CHECK: func.func @passes
// CHECK: exec.call {{.*}} {offsets = array<i64: 4160>}
// CHECK: exec.kernel rows 32{{ ?}}({{.*}}) {offsets = array<i64: 8256, 12352>} : {{.*}} -> (tensor<32x4x8xf32>, tensor<32x32xf32>)
func.func @passes(%x: tensor<32x32xf32> {graph.input = "x"}, %b: tensor<8xf32> {graph.input = "b"}) -> (tensor<32x4x8xf32> {graph.result = {kind = "loss"}}) {
  %h = graph.matmul %x, %x : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %0 = graph.reshape %h : (tensor<32x32xf32>) -> tensor<32x4x8xf32>
  %1 = graph.broadcast %b {dims = array<i64: 2>} : (tensor<8xf32>) -> tensor<32x4x8xf32>
  %2 = graph.add %0, %1 : tensor<32x4x8xf32>
  %3 = graph.tanh %2 : tensor<32x4x8xf32>
  %4 = graph.reshape %3 : (tensor<32x4x8xf32>) -> tensor<32x32xf32>
  %5 = graph.add %h, %4 : tensor<32x32xf32>
  %6 = graph.matmul %5, %x : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %7 = graph.reshape %6 : (tensor<32x32xf32>) -> tensor<32x4x8xf32>
  %8 = graph.mul %7, %3 : tensor<32x4x8xf32>
  return %8 : tensor<32x4x8xf32>
}

// -----

// The workspace of a library begins at a multiple of 256 bytes, here behind inputs of 128 bytes.
// GPU-LABEL: func.func @product
// GPU: exec.call graph.matmul {{.*}} workspace {offsets = array<i64: {{[0-9]+}}, 256>}
func.func @product(%a: tensor<4x4xf32> {graph.input = "a"}, %b: tensor<4x4xf32> {graph.input = "b"}) -> (tensor<4x4xf32> {graph.result = {kind = "loss"}}) {
  %0 = graph.matmul %a, %b : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
