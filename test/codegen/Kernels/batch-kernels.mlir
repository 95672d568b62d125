// RUN: divisi-opt %s --form-kernels=for-gpu --batch-kernels --split-input-file | FileCheck %s
// RUN: divisi-opt %s --form-kernels=for-gpu --batch-kernels --assign-buffers --split-input-file | FileCheck %s --check-prefix=TOGETHER
// RUN: divisi-opt %s --form-kernels=for-gpu --assign-buffers --split-input-file | FileCheck %s --check-prefix=ALONE

// Updates of two parameters share only the learning rate: one launch. The next kernel depends on the first, and a row kernel has rows.
// CHECK-LABEL: @updates
// CHECK: exec.kernel {{.*}}batch = 0
// CHECK: exec.kernel {{.*}}batch = 0
// CHECK-NOT: batch
// CHECK: return
func.func @updates(%p: tensor<8192xf32>, %q: tensor<1024x8xf32>, %g: tensor<8192xf32>, %h: tensor<1024x8xf32>, %rate: tensor<f32>) -> (tensor<8192xf32>, tensor<1024x8xf32>, tensor<128xf32>) {
  %r = graph.broadcast %rate {dims = array<i64>} : (tensor<f32>) -> tensor<8192xf32>
  %0 = graph.mul %g, %r : tensor<8192xf32>
  %1 = graph.sub %p, %0 : tensor<8192xf32>
  %t = graph.broadcast %rate {dims = array<i64>} : (tensor<f32>) -> tensor<1024x8xf32>
  %2 = graph.mul %h, %t : tensor<1024x8xf32>
  %3 = graph.sub %q, %2 : tensor<1024x8xf32>
  %4 = graph.reshape %1 : (tensor<8192xf32>) -> tensor<64x128xf32>
  %5 = graph.reduce_sum %4 {dims = array<i64: 0>} : (tensor<64x128xf32>) -> tensor<128xf32>
  return %1, %3, %5 : tensor<8192xf32>, tensor<1024x8xf32>, tensor<128xf32>
}

// -----

// The second kernel reuses the memory of a value whose last use is the first, unless they are launched together.
// CHECK-LABEL: @places
// CHECK-COUNT-2: exec.kernel {{.*}}batch = 0
// TOGETHER-LABEL: @places
// TOGETHER: exec.call graph.matmul (%arg0, %arg0){{.*}}offsets = array<i64: [[A:[0-9]+]], {{[0-9]+}}>
// TOGETHER: exec.kernel {{.*}}batch = 0 : i64, offsets = array<i64: {{[0-9]+}}>} : (tensor<64x64xf32>) -> tensor<64x64xbf16>
// TOGETHER-NOT: exec.kernel {{.*}}array<i64: [[A]]>
// TOGETHER: exec.call
// ALONE-LABEL: @places
// ALONE: exec.call graph.matmul (%arg0, %arg0){{.*}}offsets = array<i64: [[A:[0-9]+]], {{[0-9]+}}>
// ALONE: exec.kernel {{.*}} : (tensor<64x64xf32>) -> tensor<64x64xbf16>
// ALONE: exec.kernel {{.*}}offsets = array<i64: [[A]]>} : (tensor<64x64xbf16>) -> tensor<64x64xf32>
func.func @places(%x: tensor<64x64xf32>, %y: tensor<64x64xbf16>) -> (tensor<64x64xbf16>, tensor<64x64xf32>) {
  %b = graph.matmul %y, %y : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
  %a = graph.matmul %x, %x : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %t = graph.cast %a : (tensor<64x64xf32>) -> tensor<64x64xbf16>
  %u = graph.cast %b : (tensor<64x64xbf16>) -> tensor<64x64xf32>
  %c = graph.matmul %t, %y : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
  %d = graph.matmul %u, %x : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %c, %d : tensor<64x64xbf16>, tensor<64x64xf32>
}

// -----

// A view between the two changes nothing.
// TOGETHER-LABEL: @views
// TOGETHER: exec.call graph.matmul (%arg0, %arg0){{.*}}offsets = array<i64: [[A:[0-9]+]], {{[0-9]+}}>
// TOGETHER: exec.kernel {{.*}}batch = 0 : i64, offsets = array<i64: {{[0-9]+}}>} : (tensor<64x64xf32>) -> tensor<64x64xbf16>
// TOGETHER: graph.reshape
// TOGETHER-NOT: exec.kernel {{.*}}array<i64: [[A]]>
// TOGETHER: exec.call
// CHECK-LABEL: @views
// CHECK: exec.kernel {{.*}}batch = 0
// CHECK: graph.reshape
// CHECK: exec.kernel {{.*}}batch = 0
func.func @views(%x: tensor<64x64xf32>, %y: tensor<64x64xbf16>, %z: tensor<128x64xbf16>) -> (tensor<32x64xbf16>, tensor<64x64xf32>) {
  %b = graph.matmul %y, %y : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
  %a = graph.matmul %x, %x : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %t = graph.cast %a : (tensor<64x64xf32>) -> tensor<64x64xbf16>
  %v = graph.reshape %t : (tensor<64x64xbf16>) -> tensor<32x128xbf16>
  %u = graph.cast %b : (tensor<64x64xbf16>) -> tensor<64x64xf32>
  %c = graph.matmul %v, %z : (tensor<32x128xbf16>, tensor<128x64xbf16>) -> tensor<32x64xbf16>
  %d = graph.matmul %u, %x : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %c, %d : tensor<32x64xbf16>, tensor<64x64xf32>
}
