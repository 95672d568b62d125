// RUN: divisi-opt %s --split-reductions | FileCheck %s
// RUN: divisi-opt %s --split-reductions=for-gpu | FileCheck %s --check-prefix=GPU

// 16 partial sums, for any number of threads.
// CHECK-LABEL: func.func @rows
// CHECK-NEXT: %[[S:.*]] = graph.reshape %arg0 : (tensor<4096x64xf32>) -> tensor<16x256x64xf32>
// CHECK-NEXT: %[[P:.*]] = graph.reduce_sum %[[S]] {dims = array<i64: 1>} : (tensor<16x256x64xf32>) -> tensor<16x64xf32>
// CHECK-NEXT: %[[R:.*]] = graph.reduce_sum %[[P]] {dims = array<i64: 0>} : (tensor<16x64xf32>) -> tensor<64xf32>
// CHECK-NEXT: return %[[R]]
func.func @rows(%x: tensor<4096x64xf32>) -> tensor<64xf32> {
  %0 = graph.reduce_sum %x {dims = array<i64: 0>} : (tensor<4096x64xf32>) -> tensor<64xf32>
  return %0 : tensor<64xf32>
}

// Other reduced dimensions are reduced in the partial results; leading ones are treated as one.
// CHECK-LABEL: func.func @several
// CHECK-NEXT: %[[S:.*]] = graph.reshape %arg0 : (tensor<8x32x4x64xf32>) -> tensor<16x16x4x64xf32>
// CHECK-NEXT: %[[P:.*]] = graph.reduce_max %[[S]] {dims = array<i64: 1, 3>} : (tensor<16x16x4x64xf32>) -> tensor<16x4xf32>
// CHECK-NEXT: graph.reduce_max %[[P]] {dims = array<i64: 0>} : (tensor<16x4xf32>) -> tensor<4xf32>
func.func @several(%x: tensor<8x32x4x64xf32>) -> tensor<4xf32> {
  %0 = graph.reduce_max %x {dims = array<i64: 0, 1, 3>} : (tensor<8x32x4x64xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// Few leading rows: first within each of them.
// CHECK-LABEL: func.func @few
// CHECK-NEXT: %[[P:.*]] = graph.reduce_sum %arg0 {dims = array<i64: 2, 3>} : (tensor<16x8x64x64xf32>) -> tensor<16x8xf32>
// CHECK-NEXT: graph.reduce_sum %[[P]] {dims = array<i64: 0>} : (tensor<16x8xf32>) -> tensor<8xf32>
func.func @few(%x: tensor<16x8x64x64xf32>) -> tensor<8xf32> {
  %0 = graph.reduce_sum %x {dims = array<i64: 0, 2, 3>} : (tensor<16x8x64x64xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// The parts of sums that do not depend on each other come first, as one kernel computes them that reads %x once. The third depends
// on the first, not on the second.
// CHECK-LABEL: func.func @siblings
// CHECK: %[[P:.*]] = graph.reduce_sum %{{.*}} {dims = array<i64: 1>}
// CHECK: %[[Q:.*]] = graph.reduce_sum %{{.*}} {dims = array<i64: 1>}
// CHECK-NEXT: %[[A:.*]] = graph.reduce_sum %[[P]] {dims = array<i64: 0>}
// CHECK-NEXT: graph.broadcast %[[A]]
// CHECK: %[[T:.*]] = graph.reduce_sum %{{.*}} {dims = array<i64: 1>}
// CHECK-NEXT: %[[C:.*]] = graph.reduce_sum %[[T]] {dims = array<i64: 0>}
// CHECK-NEXT: %[[B:.*]] = graph.reduce_sum %[[Q]] {dims = array<i64: 0>}
// CHECK-NEXT: return %[[A]], %[[B]], %[[C]]
func.func @siblings(%x: tensor<4096x64xf32>, %y: tensor<4096x64xf32>) -> (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) {
  %0 = graph.reduce_sum %x {dims = array<i64: 0>} : (tensor<4096x64xf32>) -> tensor<64xf32>
  %1 = graph.mul %x, %y : tensor<4096x64xf32>
  %2 = graph.reduce_sum %1 {dims = array<i64: 0>} : (tensor<4096x64xf32>) -> tensor<64xf32>
  %3 = graph.broadcast %0 {dims = array<i64: 1>} : (tensor<64xf32>) -> tensor<4096x64xf32>
  %4 = graph.mul %x, %3 : tensor<4096x64xf32>
  %5 = graph.reduce_sum %4 {dims = array<i64: 0>} : (tensor<4096x64xf32>) -> tensor<64xf32>
  return %0, %2, %5 : tensor<64xf32>, tensor<64xf32>, tensor<64xf32>
}

// Not split: small reductions, those with parallel rows, and a prime number of rows.
// CHECK-LABEL: func.func @untouched
// CHECK-NEXT: graph.reduce_sum %arg0 {dims = array<i64: 0>}
// CHECK-NEXT: graph.reduce_sum %arg1 {dims = array<i64: 1>}
// CHECK-NEXT: graph.reduce_sum %arg2 {dims = array<i64: 0>}
// CHECK-NEXT: graph.reduce_prod %arg1 {dims = array<i64: 0>}
// CHECK-NEXT: return
func.func @untouched(%small: tensor<256x64xf32>, %x: tensor<4096x64xf32>, %prime: tensor<4099x64xf32>) -> (tensor<64xf32>, tensor<4096xf32>, tensor<64xf32>, tensor<64xf32>) {
  %0 = graph.reduce_sum %small {dims = array<i64: 0>} : (tensor<256x64xf32>) -> tensor<64xf32>
  %1 = graph.reduce_sum %x {dims = array<i64: 1>} : (tensor<4096x64xf32>) -> tensor<4096xf32>
  %2 = graph.reduce_sum %prime {dims = array<i64: 0>} : (tensor<4099x64xf32>) -> tensor<64xf32>
  %3 = graph.reduce_prod %x {dims = array<i64: 0>} : (tensor<4096x64xf32>) -> tensor<64xf32>
  return %0, %1, %2, %3 : tensor<64xf32>, tensor<4096xf32>, tensor<64xf32>, tensor<64xf32>
}

// GPUs get enough partial results for all multiprocessors. 1,024 columns: 8 blocks for each part.
// GPU-LABEL: func.func @wide
// GPU-NEXT: graph.reshape %arg0 : (tensor<65536x1024xf32>) -> tensor<128x512x1024xf32>
// GPU-NEXT: graph.reduce_sum %{{.*}} {dims = array<i64: 1>}
// GPU-NEXT: graph.reduce_sum %{{.*}} {dims = array<i64: 0>} : (tensor<128x1024xf32>) -> tensor<1024xf32>
// GPU: graph.reshape %arg0 : (tensor<65536x1024xf32>) -> tensor<1024x65536xf32>
// GPU-NEXT: graph.reduce_max %{{.*}} {dims = array<i64: 1>} : (tensor<1024x65536xf32>) -> tensor<1024xf32>
// GPU-NEXT: graph.reduce_max %{{.*}} {dims = array<i64: 0>} : (tensor<1024xf32>) -> tensor<f32>
func.func @wide(%x: tensor<65536x1024xf32>) -> (tensor<1024xf32>, tensor<f32>) {
  %0 = graph.reduce_sum %x {dims = array<i64: 0>} : (tensor<65536x1024xf32>) -> tensor<1024xf32>
  %1 = graph.reduce_max %x {dims = array<i64: 0, 1>} : (tensor<65536x1024xf32>) -> tensor<f32>
  return %0, %1 : tensor<1024xf32>, tensor<f32>
}

// Eight rows of 19 columns are one of 152, which are added up in the end; the last row is added apart.
// GPU-LABEL: func.func @odd
// GPU-NEXT: %[[M:.*]] = graph.slice %arg0 {starts = array<i64: 0, 0>, {{.*}}} : (tensor<65537x19xf32>) -> tensor<65536x19xf32>
// GPU-NEXT: graph.reshape %[[M]] : (tensor<65536x19xf32>) -> tensor<8192x152xf32>
// GPU-NEXT: graph.reshape %{{.*}} : (tensor<8192x152xf32>) -> tensor<256x32x152xf32>
// GPU-NEXT: graph.reduce_sum %{{.*}} {dims = array<i64: 1>} : (tensor<256x32x152xf32>) -> tensor<256x152xf32>
// GPU-NEXT: %[[L:.*]] = graph.slice %arg0 {starts = array<i64: 65536, 0>, {{.*}}} : (tensor<65537x19xf32>) -> tensor<1x19xf32>
// GPU-NEXT: %[[R:.*]] = graph.reduce_sum %[[L]]
// GPU-NEXT: graph.reduce_sum %{{.*}} {dims = array<i64: 0>} : (tensor<256x152xf32>) -> tensor<152xf32>
// GPU-NEXT: graph.reshape %{{.*}} : (tensor<152xf32>) -> tensor<8x19xf32>
// GPU-NEXT: graph.reduce_sum %{{.*}} {dims = array<i64: 0>} : (tensor<8x19xf32>) -> tensor<19xf32>
// GPU-NEXT: graph.add %{{.*}}, %[[R]]
func.func @odd(%x: tensor<65537x19xf32>) -> tensor<19xf32> {
  %0 = graph.reduce_sum %x {dims = array<i64: 0>} : (tensor<65537x19xf32>) -> tensor<19xf32>
  return %0 : tensor<19xf32>
}

// The points of each of few images, channels last, are added up in parts on GPUs: 128 x 144 columns make 144 blocks, and 528 are wanted.
// Sums along rows, and those of many images, stay as they are.
// GPU-LABEL: func.func @images
// GPU-NEXT: %[[S:.*]] = graph.reshape %arg0 : (tensor<128x56x56x144xf32>) -> tensor<128x4x784x144xf32>
// GPU-NEXT: %[[P:.*]] = graph.reduce_sum %[[S]] {dims = array<i64: 2>} : (tensor<128x4x784x144xf32>) -> tensor<128x4x144xf32>
// GPU-NEXT: %[[R:.*]] = graph.reduce_sum %[[P]] {dims = array<i64: 1>} : (tensor<128x4x144xf32>) -> tensor<128x144xf32>
// GPU-NEXT: graph.reduce_sum %arg1 {dims = array<i64: 1>} : (tensor<128x50176xf32>) -> tensor<128xf32>
// GPU-NEXT: graph.reduce_sum %arg2 {dims = array<i64: 1, 2>} : (tensor<1024x14x14x144xf32>) -> tensor<1024x144xf32>
func.func @images(%x: tensor<128x56x56x144xf32>, %y: tensor<128x50176xf32>, %z: tensor<1024x14x14x144xf32>)
    -> (tensor<128x144xf32>, tensor<128xf32>, tensor<1024x144xf32>) {
  %0 = graph.reduce_sum %x {dims = array<i64: 1, 2>} : (tensor<128x56x56x144xf32>) -> tensor<128x144xf32>
  %1 = graph.reduce_sum %y {dims = array<i64: 1>} : (tensor<128x50176xf32>) -> tensor<128xf32>
  %2 = graph.reduce_sum %z {dims = array<i64: 1, 2>} : (tensor<1024x14x14x144xf32>) -> tensor<1024x144xf32>
  return %0, %1, %2 : tensor<128x144xf32>, tensor<128xf32>, tensor<1024x144xf32>
}
