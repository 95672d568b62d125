// RUN: divisi-opt %s --prefetch-state=bucket-bytes=64 | FileCheck %s
// RUN: divisi-opt %s --prefetch-state=bucket-bytes=1 | FileCheck %s --check-prefix=ONE

#mesh = #dist.mesh<"data" = 2, "model" = 2>

// Gathers start before the first use of the layer before theirs; a layer has 64 bytes, and no argument twice.
// CHECK-LABEL: func.func @ahead
// CHECK-NEXT: %[[S:.*]] = graph.neg %arg4
// CHECK-NEXT: %[[A:.*]] = dist.all_gather %arg0 {{.*}}layer = 0
// CHECK-NEXT: %[[B:.*]] = dist.all_gather %arg1 {{.*}}layer = 0
// CHECK-NEXT: %[[C:.*]] = dist.all_gather %arg2 {{.*}}layer = 1
// CHECK-NEXT: graph.add %[[S]], %[[A]]
// CHECK-NEXT: graph.add %{{.*}}, %[[B]]
// CHECK-NEXT: %[[D:.*]] = dist.all_gather %arg2 {{.*}}layer = 2
// CHECK-NEXT: %[[E:.*]] = dist.all_gather %arg0 {{.*}}layer = 2
// CHECK-NEXT: graph.add %{{.*}}, %[[C]]
// CHECK-NEXT: %[[F:.*]] = dist.all_gather %arg3 {{.*}}layer = 3
// CHECK-NEXT: graph.add %{{.*}}, %[[D]]
// CHECK-NEXT: %[[G:.*]] = graph.add %{{.*}}, %[[E]]
// CHECK-NEXT: %[[N:.*]] = graph.neg %[[F]]
// CHECK-NEXT: return %[[G]], %[[N]]
// ONE-LABEL: func.func @ahead
// ONE-NEXT: graph.neg
// ONE-NEXT: dist.all_gather %arg0 {{.*}}layer = 0
// ONE-NEXT: dist.all_gather %arg1 {{.*}}layer = 1
// ONE-NEXT: graph.add
// ONE-NEXT: dist.all_gather %arg2 {{.*}}layer = 2
// ONE-NEXT: graph.add
// ONE-NEXT: dist.all_gather %arg2 {{.*}}layer = 3
// ONE-NEXT: graph.add
// ONE-NEXT: dist.all_gather %arg0 {{.*}}layer = 4
// ONE-NEXT: graph.add
// ONE-NEXT: dist.all_gather %arg3 {{.*}}layer = 5
// ONE-NEXT: graph.add
// ONE-NEXT: graph.neg
func.func @ahead(%a: tensor<4xf32>, %b: tensor<4xf32>, %c: tensor<4xf32>, %d: tensor<512xf32>, %x: tensor<8xf32>)
    -> (tensor<8xf32>, tensor<1024xf32>) attributes {dist.partitioned = #mesh} {
  %0 = graph.neg %x : tensor<8xf32>
  %1 = dist.all_gather %a dim 0 over ["data"] {use = 0} : tensor<4xf32> -> tensor<8xf32>
  %2 = graph.add %0, %1 : tensor<8xf32>
  %3 = dist.all_gather %b dim 0 over ["data"] {use = 1} : tensor<4xf32> -> tensor<8xf32>
  %4 = graph.add %2, %3 : tensor<8xf32>
  %5 = dist.all_gather %c dim 0 over ["data"] {use = 2} : tensor<4xf32> -> tensor<8xf32>
  %6 = graph.add %4, %5 : tensor<8xf32>
  %7 = dist.all_gather %c dim 0 over ["data"] {use = 3} : tensor<4xf32> -> tensor<8xf32>
  %8 = graph.add %6, %7 : tensor<8xf32>
  %9 = dist.all_gather %a dim 0 over ["data"] {use = 4} : tensor<4xf32> -> tensor<8xf32>
  %10 = graph.add %8, %9 : tensor<8xf32>
  %11 = dist.all_gather %d dim 0 over ["data"] {use = 5} : tensor<512xf32> -> tensor<1024xf32>
  %12 = graph.neg %11 : tensor<1024xf32>
  return %10, %12 : tensor<8xf32>, tensor<1024xf32>
}

// Gathers over several axes, one after the other, go together. What is made of an argument alone is gathered ahead,
// too, and made before. What is no gather of state stays, and (@reduced) one of what other devices have.
// CHECK-LABEL: func.func @others
// CHECK-NEXT: %[[P:.*]] = dist.all_gather %arg0 {{.*}}layer = 0
// CHECK-NEXT: %[[A:.*]] = dist.all_gather %[[P]] {{.*}}layer = 0
// CHECK-NEXT: %[[Q:.*]] = dist.all_gather %arg1 {{.*}}layer = 1
// CHECK-NEXT: %[[B:.*]] = dist.all_gather %[[Q]] {{.*}}layer = 1
// CHECK-NEXT: graph.add %arg2, %[[A]]
// CHECK-NEXT: %[[G:.*]] = dist.all_gather %arg1 dim 0 over ["data", "model"] :
// CHECK-NEXT: graph.add %{{.*}}, %[[G]]
// CHECK-NEXT: %[[N:.*]] = graph.neg %arg1
// CHECK-NEXT: dist.all_gather %[[N]] {{.*}}layer = 2
// CHECK-NEXT: graph.add %{{.*}}, %[[B]]
// CHECK-NEXT: dist.all_gather %arg0 {{.*}} {use = 5 : i64} :
// CHECK-NEXT: dist.all_reduce
func.func @others(%a: tensor<16xf32>, %b: tensor<16xf32>, %x: tensor<64xf32>) -> (tensor<64xf32>, tensor<32xf32>, tensor<32xf32>)
    attributes {dist.partitioned = #mesh} {
  %0 = dist.all_gather %a dim 0 over ["model"] {use = 0} : tensor<16xf32> -> tensor<32xf32>
  %1 = dist.all_gather %0 dim 0 over ["data"] {use = 1} : tensor<32xf32> -> tensor<64xf32>
  %2 = graph.add %x, %1 : tensor<64xf32>
  %3 = dist.all_gather %b dim 0 over ["data", "model"] : tensor<16xf32> -> tensor<64xf32>
  %4 = graph.add %2, %3 : tensor<64xf32>
  %5 = dist.all_gather %b dim 0 over ["model"] {use = 2} : tensor<16xf32> -> tensor<32xf32>
  %6 = dist.all_gather %5 dim 0 over ["data"] {use = 3} : tensor<32xf32> -> tensor<64xf32>
  %7 = graph.add %4, %6 : tensor<64xf32>
  %8 = graph.neg %b : tensor<16xf32>
  %9 = dist.all_gather %8 dim 0 over ["model"] {use = 4} : tensor<16xf32> -> tensor<32xf32>
  %10 = dist.all_gather %a dim 0 over ["model"] {use = 5} : tensor<16xf32> -> tensor<32xf32>
  %11 = dist.all_reduce sum over ["data"] %10 : (tensor<32xf32>) -> tensor<32xf32>
  return %7, %9, %11 : tensor<64xf32>, tensor<32xf32>, tensor<32xf32>
}

// CHECK-LABEL: func.func @reduced
// CHECK-NEXT: graph.neg %arg1
// CHECK-NEXT: dist.all_reduce
// CHECK-NEXT: graph.neg
// CHECK-NEXT: dist.all_gather %{{.*}} {use = 0 : i64} :
func.func @reduced(%a: tensor<16xf32>, %x: tensor<32xf32>) -> tensor<32xf32> attributes {dist.partitioned = #mesh} {
  %0 = graph.neg %x : tensor<32xf32>
  %1 = dist.all_reduce sum over ["data"] %a : (tensor<16xf32>) -> tensor<16xf32>
  %2 = graph.neg %1 : tensor<16xf32>
  %3 = dist.all_gather %2 dim 0 over ["model"] {use = 0} : tensor<16xf32> -> tensor<32xf32>
  %4 = graph.add %0, %3 : tensor<32xf32>
  return %4 : tensor<32xf32>
}
