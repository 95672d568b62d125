// RUN: divisi-opt %s --partition | FileCheck %s

// Queries are split over an axis: a device's causal mask begins at its first query, and becomes the bias of the call. The gradients of
// keys and values are pending sums, that of the queries is not.

#mesh = #dist.mesh<"data" = 2>
#q = #dist.shard<_, "data", _, _>
#stats = #dist.shard<_, _, "data">
#sum = #dist.shard<_, _, _, _, sum "data">

// CHECK-LABEL: func.func @queries
// CHECK-SAME: (%[[Q:[a-z0-9]*]]: tensor<2x4x3x16xbf16> {{[^%]*}}, %[[K:[a-z0-9]*]]: tensor<2x8x3x16xbf16>,
// CHECK: graph.iota
// CHECK: %[[MASK:.*]] = graph.select {{.*}} tensor<1x1x4x8xf32>
// CHECK: graph.attention %[[Q]], %[[K]], %{{[a-z0-9]*}}, %[[MASK]] {scale = 2.500000e-01 : f64}
// CHECK-NOT: causal
// CHECK: graph.attention_grad {{.*}} -> (tensor<2x4x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>)
// CHECK: dist.all_reduce sum over ["data"]
func.func @queries(%q: tensor<2x8x3x16xbf16, #q>, %k: tensor<2x8x3x16xbf16>, %v: tensor<2x8x3x16xbf16>,
                   %g: tensor<2x8x3x16xbf16, #q>) -> (tensor<2x8x3x16xbf16, #q>, tensor<2x8x3x16xbf16>)
    attributes {dist.mesh = #mesh} {
  %o, %s = graph.attention %q, %k, %v {causal, scale = 0.25 : f64} : (tensor<2x8x3x16xbf16, #q>, tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>)
    -> (tensor<2x8x3x16xbf16, #q>, tensor<2x3x8xf32, #stats>)
  %dq, %dk, %dv = graph.attention_grad %q, %k, %v, %o, %s, %g {causal, scale = 0.25 : f64} : (tensor<2x8x3x16xbf16, #q>, tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16, #q>, tensor<2x3x8xf32, #stats>, tensor<2x8x3x16xbf16, #q>)
    -> (tensor<2x8x3x16xbf16, #q>, tensor<2x8x3x16xbf16, #sum>, tensor<2x8x3x16xbf16, #sum>)
  %all = dist.reshard %dk : tensor<2x8x3x16xbf16, #sum> -> tensor<2x8x3x16xbf16>
  return %dq, %all : tensor<2x8x3x16xbf16, #q>, tensor<2x8x3x16xbf16>
}
