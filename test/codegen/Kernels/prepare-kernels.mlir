// RUN: divisi-opt %s --prepare-kernels | FileCheck %s

// A value of 16 bits that is widened and narrowed again, in another shape, is read as it is; an output has memory of its own.
// CHECK-LABEL: @round_trip
// CHECK-NOT: graph.cast
// CHECK: %[[SAME:.*]] = graph.reshape %arg0 : (tensor<4x2xbf16>) -> tensor<8xbf16>
// CHECK: graph.add %[[SAME]], %[[SAME]]
// CHECK: %[[WIDE:.*]] = graph.cast %arg0
// CHECK: %[[OUT:.*]] = graph.cast %[[WIDE]]
// CHECK: return %{{.*}}, %[[OUT]]
func.func @round_trip(%x: tensor<4x2xbf16>) -> (tensor<8xbf16>, tensor<4x2xbf16>) {
  %w = graph.cast %x : (tensor<4x2xbf16>) -> tensor<4x2xf32>
  %r = graph.reshape %w : (tensor<4x2xf32>) -> tensor<8xf32>
  %n = graph.cast %r : (tensor<8xf32>) -> tensor<8xbf16>
  %y = graph.add %n, %n : tensor<8xbf16>
  %v = graph.cast %x : (tensor<4x2xbf16>) -> tensor<4x2xf32>
  %z = graph.cast %v : (tensor<4x2xf32>) -> tensor<4x2xbf16>
  return %y, %z : tensor<8xbf16>, tensor<4x2xbf16>
}

// Nobody merges operations behind this pass: barriers go. What nothing reads goes, too.
// CHECK-LABEL: @barrier
// CHECK-NEXT: %[[Y:.*]] = graph.relu %arg0
// CHECK-NEXT: return %[[Y]]
func.func @barrier(%x: tensor<4xf32>) -> tensor<4xf32> {
  %b = graph.reshape %x {barrier} : (tensor<4xf32>) -> tensor<4xf32>
  %unused = graph.exp %x : tensor<4xf32>
  %y = graph.relu %b : tensor<4xf32>
  return %y : tensor<4xf32>
}

// A sum of no elements is zero.
// CHECK-LABEL: @nothing
// CHECK-NEXT: %[[ZERO:.*]] = graph.constant dense<0.000000e+00> : tensor<3xf32>
// CHECK-NEXT: return %[[ZERO]]
func.func @nothing(%x: tensor<0x3xf32>) -> tensor<3xf32> {
  %y = graph.reduce_sum %x {dims = array<i64: 0>} : (tensor<0x3xf32>) -> tensor<3xf32>
  return %y : tensor<3xf32>
}
