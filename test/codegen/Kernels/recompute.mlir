// RUN: divisi-opt %s --form-kernels --split-input-file | FileCheck %s --check-prefix=CPU
// RUN: divisi-opt %s --form-kernels=for-gpu --split-input-file | FileCheck %s --check-prefix=GPU

// A value for the backward pass of an activation: stored on CPUs; GPUs recompute it from the matmul's result.
// CPU-LABEL: func.func @backward
// CPU: exec.kernel {{.*}} -> (tensor<256x512xf32>, tensor<256x512xf32>) {
// CPU: graph.tanh
// CPU-NOT: graph.tanh
// GPU-LABEL: func.func @backward
// GPU: %[[H:.*]], %{{.*}} = exec.call graph.matmul {{.*}} workspace : {{.*}} -> (tensor<256x512xf32>, tensor<33554432xi8>)
// GPU: %[[A:.*]] = exec.kernel {{.*}}(%[[H]]) {{.*}} -> tensor<256x512xf32> {
// GPU: graph.tanh
// GPU: %[[G:.*]], %{{.*}} = exec.call graph.matmul (%[[A]],
// GPU: exec.kernel {{.*}}(%[[G]], %[[H]]) {{.*}} -> tensor<256x512xf32> {
// GPU: graph.tanh
func.func @backward(%x: tensor<256x512xf32>, %w: tensor<512x512xf32>) -> tensor<256x512xf32> {
  %h = graph.matmul %x, %w : (tensor<256x512xf32>, tensor<512x512xf32>) -> tensor<256x512xf32>
  %t = graph.tanh %h : tensor<256x512xf32>
  %a = graph.mul %h, %t : tensor<256x512xf32>
  %g = graph.matmul %a, %w : (tensor<256x512xf32>, tensor<512x512xf32>) -> tensor<256x512xf32>
  %b = graph.mul %g, %t : tensor<256x512xf32>
  %c = graph.matmul %b, %w : (tensor<256x512xf32>, tensor<512x512xf32>) -> tensor<256x512xf32>
  return %c : tensor<256x512xf32>
}

// -----

// CPU-LABEL: func.func @no_gain
// Recomputing does not pay if the reader would read more than now.
// GPU-LABEL: func.func @no_gain
// GPU: exec.kernel {{.*}} -> (tensor<256x512xf32>, tensor<256x512xf32>) {
// GPU: graph.tanh
// GPU-NOT: graph.tanh
func.func @no_gain(%p: tensor<256x512xf32>, %q: tensor<256x512xf32>, %r: tensor<256x512xf32>, %w: tensor<512x512xf32>) -> tensor<256x512xf32> {
  %s = graph.add %p, %q : tensor<256x512xf32>
  %h = graph.add %s, %r : tensor<256x512xf32>
  %t = graph.tanh %h : tensor<256x512xf32>
  %a = graph.mul %h, %t : tensor<256x512xf32>
  %g = graph.matmul %a, %w : (tensor<256x512xf32>, tensor<512x512xf32>) -> tensor<256x512xf32>
  %b = graph.mul %g, %t : tensor<256x512xf32>
  %c = graph.matmul %b, %w : (tensor<256x512xf32>, tensor<512x512xf32>) -> tensor<256x512xf32>
  return %c : tensor<256x512xf32>
}

// -----

// A row that does not fit into shared memory is recomputed in each pass.
// CPU-LABEL: func.func @long_row
// CPU: graph.exp {{.*}}exec.stage
// GPU-LABEL: func.func @long_row
// GPU-NOT: graph.exp {{.*}}exec.stage
func.func @long_row(%x: tensor<64x16384xbf16>) -> tensor<64x16384xf32> {
  %f = graph.cast %x : (tensor<64x16384xbf16>) -> tensor<64x16384xf32>
  %e = graph.exp %f : tensor<64x16384xf32>
  %s = graph.reduce_sum %e {dims = array<i64: 1>} : (tensor<64x16384xf32>) -> tensor<64xf32>
  %b = graph.broadcast %s {dims = array<i64: 0>} : (tensor<64xf32>) -> tensor<64x16384xf32>
  %y = graph.div %e, %b : tensor<64x16384xf32>
  return %y : tensor<64x16384xf32>
}

// -----

// Kernels for GPUs with the same inputs are merged.
// CPU-LABEL: func.func @siblings
// CPU-COUNT-2: exec.kernel
// GPU-LABEL: func.func @siblings
// GPU-COUNT-1: exec.kernel
// GPU-NOT: exec.kernel
func.func @siblings(%m: tensor<256x512xf32>, %v: tensor<256x512xf32>, %g: tensor<256x512xf32>) -> (tensor<256x512xf32>, tensor<256x512xf32>) {
  %a = graph.add %m, %g : tensor<256x512xf32>
  %s = graph.mul %g, %g : tensor<256x512xf32>
  %b = graph.add %v, %s : tensor<256x512xf32>
  return %a, %b : tensor<256x512xf32>, tensor<256x512xf32>
}

// -----

// What windows of 3 x 3 that move by 2 read is recomputed from the convolution: they overlap 2.25 times.
// CPU-LABEL: func.func @overlapping
// GPU-LABEL: func.func @overlapping
// GPU: %[[H:.*]], %{{.*}} = exec.call graph.conv
// GPU: exec.kernel {{.*}}(%[[H]]) {{.*}} -> tensor<2x32x32x64xf32> {
// GPU: graph.tanh
// GPU: exec.kernel {{.*}}(%arg2, %[[H]]) {{.*}} -> tensor<2x64x64x64xf32> {
// GPU: graph.tanh
func.func @overlapping(%x: tensor<2x64x64x3xf32>, %w: tensor<64x3x1x1xf32>, %g: tensor<2x64x64x64xf32>) -> (tensor<2x32x32x64xf32>, tensor<2x64x64x64xf32>) {
  %h = graph.conv %x, %w {channels_last, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads_low = array<i64: 0, 0>, pads_high = array<i64: 0, 0>, groups = 1 : i64} : (tensor<2x64x64x3xf32>, tensor<64x3x1x1xf32>) -> tensor<2x64x64x64xf32>
  %t = graph.tanh %h : tensor<2x64x64x64xf32>
  %y, %p = graph.max_pool %t {window = array<i64: 1, 3, 3, 1>, strides = array<i64: 1, 2, 2, 1>, dilations = array<i64: 1, 1, 1, 1>, pads_low = array<i64: 0, 1, 1, 0>} : (tensor<2x64x64x64xf32>) -> (tensor<2x32x32x64xf32>, tensor<2x32x32x64xi32>)
  %b = graph.mul %g, %t : tensor<2x64x64x64xf32>
  return %y, %b : tensor<2x32x32x64xf32>, tensor<2x64x64x64xf32>
}

// -----

// What those read that move by 1 is stored: each element would be computed nine times.
// CPU-LABEL: func.func @overlapping_much
// GPU-LABEL: func.func @overlapping_much
// GPU: graph.tanh
// GPU: graph.max_pool
// GPU-NOT: graph.tanh
func.func @overlapping_much(%x: tensor<2x64x64x3xf32>, %w: tensor<64x3x1x1xf32>, %g: tensor<2x64x64x64xf32>) -> (tensor<2x64x64x64xf32>, tensor<2x64x64x64xf32>) {
  %h = graph.conv %x, %w {channels_last, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads_low = array<i64: 0, 0>, pads_high = array<i64: 0, 0>, groups = 1 : i64} : (tensor<2x64x64x3xf32>, tensor<64x3x1x1xf32>) -> tensor<2x64x64x64xf32>
  %t = graph.tanh %h : tensor<2x64x64x64xf32>
  %y, %p = graph.max_pool %t {window = array<i64: 1, 3, 3, 1>, strides = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1, 1, 1>, pads_low = array<i64: 0, 1, 1, 0>} : (tensor<2x64x64x64xf32>) -> (tensor<2x64x64x64xf32>, tensor<2x64x64x64xi32>)
  %b = graph.mul %g, %t : tensor<2x64x64x64xf32>
  return %y, %b : tensor<2x64x64x64xf32>, tensor<2x64x64x64xf32>
}
