// RUN: divisi-opt %s --partition --split-input-file | FileCheck %s

// Shards of a spatial dimension: borders of the neighbours before a convolution, sums of them after its transpose.

// A window of 3: one row of each neighbour, zeros at the border.
// CHECK-LABEL: func.func @forward
// CHECK-NEXT: %[[L:.*]] = graph.slice %arg0 {starts = array<i64: 0, 0, 3, 0>{{.*}} -> tensor<2x3x1x8xf32>
// CHECK-NEXT: %[[LOW:.*]] = dist.permute %[[L]] by 1 over ["data"]
// CHECK-NEXT: %[[H:.*]] = graph.slice %arg0 {starts = array<i64: 0, 0, 0, 0>{{.*}} -> tensor<2x3x1x8xf32>
// CHECK-NEXT: %[[HIGH:.*]] = dist.permute %[[H]] by -1 over ["data"]
// CHECK-NEXT: %[[X:.*]] = graph.concat %[[LOW]], %arg0, %[[HIGH]] {dim = 2 : i64} : {{.*}} -> tensor<2x3x6x8xf32>
// CHECK-NEXT: graph.conv %[[X]], %arg1 {{.*}}pads_high = array<i64: 0, 1>, pads_low = array<i64: 0, 1>, strides = array<i64: 1, 1>}
// CHECK-LABEL: func.func @input
// CHECK-NEXT: %[[G:.*]] = graph.conv_input_grad %arg0, %arg1 {{.*}}pads_high = array<i64: 0, 1>, pads_low = array<i64: 0, 1>, strides = array<i64: 1, 1>} : {{.*}} -> tensor<2x3x6x8xf32>
// CHECK-NEXT: %[[OWN:.*]] = graph.slice %[[G]] {starts = array<i64: 0, 0, 1, 0>{{.*}} -> tensor<2x3x4x8xf32>
// CHECK-NEXT: %[[L:.*]] = graph.slice %[[G]] {starts = array<i64: 0, 0, 0, 0>{{.*}} -> tensor<2x3x1x8xf32>
// CHECK-NEXT: %[[LP:.*]] = dist.permute %[[L]] by -1 over ["data"]
// CHECK-NEXT: %[[LOW:.*]] = graph.pad %[[LP]] {low = array<i64: 0, 0, 3, 0>{{.*}} -> tensor<2x3x4x8xf32>
// CHECK-NEXT: %[[A:.*]] = graph.add %[[OWN]], %[[LOW]]
// CHECK-NEXT: %[[H:.*]] = graph.slice %[[G]] {starts = array<i64: 0, 0, 5, 0>{{.*}} -> tensor<2x3x1x8xf32>
// CHECK-NEXT: %[[HP:.*]] = dist.permute %[[H]] by 1 over ["data"]
// CHECK-NEXT: %[[HIGH:.*]] = graph.pad %[[HP]] {low = array<i64: 0, 0, 0, 0>{{.*}} -> tensor<2x3x4x8xf32>
// CHECK-NEXT: %[[B:.*]] = graph.add %[[A]], %[[HIGH]]
// CHECK-NEXT: return %[[B]]
// CHECK-LABEL: func.func @filter
// CHECK-NEXT: %[[L:.*]] = graph.slice %arg0 {starts = array<i64: 0, 0, 3, 0>{{.*}} -> tensor<2x3x1x8xf32>
// CHECK-NEXT: %[[LOW:.*]] = dist.permute %[[L]] by 1 over ["data"]
// CHECK-NEXT: %[[H:.*]] = graph.slice %arg0 {starts = array<i64: 0, 0, 0, 0>{{.*}} -> tensor<2x3x1x8xf32>
// CHECK-NEXT: %[[HIGH:.*]] = dist.permute %[[H]] by -1 over ["data"]
// CHECK-NEXT: %[[X:.*]] = graph.concat %[[LOW]], %arg0, %[[HIGH]] {dim = 2 : i64} : {{.*}} -> tensor<2x3x6x8xf32>
// CHECK-NEXT: %[[P:.*]] = graph.conv_filter_grad %[[X]], %arg1 {{.*}}pads_high = array<i64: 0, 1>, pads_low = array<i64: 0, 1>, strides = array<i64: 1, 1>}
// CHECK-NEXT: dist.all_reduce sum over ["data"] %[[P]]
!x = tensor<2x3x8x8xf32, #dist.shard<_, _, "data", _>>
!f = tensor<4x3x3x3xf32>
!p = tensor<4x3x3x3xf32, #dist.shard<_, _, _, _, sum "data">>
!y = tensor<2x4x8x8xf32, #dist.shard<_, _, "data", _>>
func.func @forward(%x: !x, %f: !f) -> !y attributes {dist.mesh = #dist.mesh<"data" = 2>} {
  %y = graph.conv %x, %f {dilations = array<i64: 1, 1>, groups = 1 : i64, pads_high = array<i64: 1, 1>, pads_low = array<i64: 1, 1>,
      strides = array<i64: 1, 1>} : (!x, !f) -> !y
  return %y : !y
}
func.func @input(%y: !y, %f: !f) -> !x attributes {dist.mesh = #dist.mesh<"data" = 2>} {
  %x = graph.conv_input_grad %y, %f {dilations = array<i64: 1, 1>, groups = 1 : i64, pads_high = array<i64: 1, 1>, pads_low = array<i64: 1, 1>,
      strides = array<i64: 1, 1>} : (!y, !f) -> !x
  return %x : !x
}
func.func @filter(%x: !x, %y: !y) -> !f attributes {dist.mesh = #dist.mesh<"data" = 2>} {
  %p = graph.conv_filter_grad %x, %y {dilations = array<i64: 1, 1>, groups = 1 : i64, pads_high = array<i64: 1, 1>, pads_low = array<i64: 1, 1>,
      strides = array<i64: 1, 1>} : (!x, !y) -> !p
  %f = dist.reshard %p : !p -> !f
  return %f : !f
}

// -----

// A window of 5: two rows.
// CHECK-LABEL: func.func @forward
// CHECK-NEXT: %[[L:.*]] = graph.slice %arg0 {starts = array<i64: 0, 0, 2, 0>{{.*}} -> tensor<2x3x2x8xf32>
// CHECK-NEXT: %[[LOW:.*]] = dist.permute %[[L]] by 1 over ["data"]
// CHECK-NEXT: %[[H:.*]] = graph.slice %arg0 {starts = array<i64: 0, 0, 0, 0>{{.*}} -> tensor<2x3x2x8xf32>
// CHECK-NEXT: %[[HIGH:.*]] = dist.permute %[[H]] by -1 over ["data"]
// CHECK-NEXT: %[[X:.*]] = graph.concat %[[LOW]], %arg0, %[[HIGH]] {dim = 2 : i64} : {{.*}} -> tensor<2x3x8x8xf32>
// CHECK-NEXT: graph.conv %[[X]], %arg1 {{.*}}pads_high = array<i64: 0, 2>, pads_low = array<i64: 0, 2>, strides = array<i64: 1, 1>}
// CHECK-LABEL: func.func @input
// CHECK-NEXT: %[[G:.*]] = graph.conv_input_grad %arg0, %arg1 {{.*}}pads_high = array<i64: 0, 2>, pads_low = array<i64: 0, 2>, strides = array<i64: 1, 1>} : {{.*}} -> tensor<2x3x8x8xf32>
// CHECK-NEXT: %[[OWN:.*]] = graph.slice %[[G]] {starts = array<i64: 0, 0, 2, 0>{{.*}} -> tensor<2x3x4x8xf32>
// CHECK-NEXT: %[[L:.*]] = graph.slice %[[G]] {starts = array<i64: 0, 0, 0, 0>{{.*}} -> tensor<2x3x2x8xf32>
// CHECK-NEXT: %[[LP:.*]] = dist.permute %[[L]] by -1 over ["data"]
// CHECK-NEXT: %[[LOW:.*]] = graph.pad %[[LP]] {low = array<i64: 0, 0, 2, 0>{{.*}} -> tensor<2x3x4x8xf32>
// CHECK-NEXT: %[[A:.*]] = graph.add %[[OWN]], %[[LOW]]
// CHECK-NEXT: %[[H:.*]] = graph.slice %[[G]] {starts = array<i64: 0, 0, 6, 0>{{.*}} -> tensor<2x3x2x8xf32>
// CHECK-NEXT: %[[HP:.*]] = dist.permute %[[H]] by 1 over ["data"]
// CHECK-NEXT: %[[HIGH:.*]] = graph.pad %[[HP]] {low = array<i64: 0, 0, 0, 0>{{.*}} -> tensor<2x3x4x8xf32>
// CHECK-NEXT: %[[B:.*]] = graph.add %[[A]], %[[HIGH]]
// CHECK-NEXT: return %[[B]]
// CHECK-LABEL: func.func @filter
// CHECK-NEXT: %[[L:.*]] = graph.slice %arg0 {starts = array<i64: 0, 0, 2, 0>{{.*}} -> tensor<2x3x2x8xf32>
// CHECK-NEXT: %[[LOW:.*]] = dist.permute %[[L]] by 1 over ["data"]
// CHECK-NEXT: %[[H:.*]] = graph.slice %arg0 {starts = array<i64: 0, 0, 0, 0>{{.*}} -> tensor<2x3x2x8xf32>
// CHECK-NEXT: %[[HIGH:.*]] = dist.permute %[[H]] by -1 over ["data"]
// CHECK-NEXT: %[[X:.*]] = graph.concat %[[LOW]], %arg0, %[[HIGH]] {dim = 2 : i64} : {{.*}} -> tensor<2x3x8x8xf32>
// CHECK-NEXT: %[[P:.*]] = graph.conv_filter_grad %[[X]], %arg1 {{.*}}pads_high = array<i64: 0, 2>, pads_low = array<i64: 0, 2>, strides = array<i64: 1, 1>}
// CHECK-NEXT: dist.all_reduce sum over ["data"] %[[P]]
!x = tensor<2x3x8x8xf32, #dist.shard<_, _, "data", _>>
!f = tensor<4x3x5x5xf32>
!p = tensor<4x3x5x5xf32, #dist.shard<_, _, _, _, sum "data">>
!y = tensor<2x4x8x8xf32, #dist.shard<_, _, "data", _>>
func.func @forward(%x: !x, %f: !f) -> !y attributes {dist.mesh = #dist.mesh<"data" = 2>} {
  %y = graph.conv %x, %f {dilations = array<i64: 1, 1>, groups = 1 : i64, pads_high = array<i64: 2, 2>, pads_low = array<i64: 2, 2>,
      strides = array<i64: 1, 1>} : (!x, !f) -> !y
  return %y : !y
}
func.func @input(%y: !y, %f: !f) -> !x attributes {dist.mesh = #dist.mesh<"data" = 2>} {
  %x = graph.conv_input_grad %y, %f {dilations = array<i64: 1, 1>, groups = 1 : i64, pads_high = array<i64: 2, 2>, pads_low = array<i64: 2, 2>,
      strides = array<i64: 1, 1>} : (!y, !f) -> !x
  return %x : !x
}
func.func @filter(%x: !x, %y: !y) -> !f attributes {dist.mesh = #dist.mesh<"data" = 2>} {
  %p = graph.conv_filter_grad %x, %y {dilations = array<i64: 1, 1>, groups = 1 : i64, pads_high = array<i64: 2, 2>, pads_low = array<i64: 2, 2>,
      strides = array<i64: 1, 1>} : (!x, !y) -> !p
  %f = dist.reshard %p : !p -> !f
  return %f : !f
}

// -----

// Stride 2: only the row before.
// CHECK-LABEL: func.func @forward
// CHECK-NEXT: %[[L:.*]] = graph.slice %arg0 {starts = array<i64: 0, 0, 3, 0>{{.*}} -> tensor<2x3x1x8xf32>
// CHECK-NEXT: %[[LOW:.*]] = dist.permute %[[L]] by 1 over ["data"]
// CHECK-NEXT: %[[X:.*]] = graph.concat %[[LOW]], %arg0 {dim = 2 : i64} : {{.*}} -> tensor<2x3x5x8xf32>
// CHECK-NEXT: graph.conv %[[X]], %arg1 {{.*}}pads_high = array<i64: 0, 0>, pads_low = array<i64: 0, 1>, strides = array<i64: 2, 2>}
// CHECK-LABEL: func.func @input
// CHECK-NEXT: %[[G:.*]] = graph.conv_input_grad %arg0, %arg1 {{.*}}pads_high = array<i64: 0, 0>, pads_low = array<i64: 0, 1>, strides = array<i64: 2, 2>} : {{.*}} -> tensor<2x3x5x8xf32>
// CHECK-NEXT: %[[OWN:.*]] = graph.slice %[[G]] {starts = array<i64: 0, 0, 1, 0>{{.*}} -> tensor<2x3x4x8xf32>
// CHECK-NEXT: %[[L:.*]] = graph.slice %[[G]] {starts = array<i64: 0, 0, 0, 0>{{.*}} -> tensor<2x3x1x8xf32>
// CHECK-NEXT: %[[LP:.*]] = dist.permute %[[L]] by -1 over ["data"]
// CHECK-NEXT: %[[LOW:.*]] = graph.pad %[[LP]] {low = array<i64: 0, 0, 3, 0>{{.*}} -> tensor<2x3x4x8xf32>
// CHECK-NEXT: %[[A:.*]] = graph.add %[[OWN]], %[[LOW]]
// CHECK-NEXT: return %[[A]]
// CHECK-LABEL: func.func @filter
// CHECK-NEXT: %[[L:.*]] = graph.slice %arg0 {starts = array<i64: 0, 0, 3, 0>{{.*}} -> tensor<2x3x1x8xf32>
// CHECK-NEXT: %[[LOW:.*]] = dist.permute %[[L]] by 1 over ["data"]
// CHECK-NEXT: %[[X:.*]] = graph.concat %[[LOW]], %arg0 {dim = 2 : i64} : {{.*}} -> tensor<2x3x5x8xf32>
// CHECK-NEXT: %[[P:.*]] = graph.conv_filter_grad %[[X]], %arg1 {{.*}}pads_high = array<i64: 0, 0>, pads_low = array<i64: 0, 1>, strides = array<i64: 2, 2>}
// CHECK-NEXT: dist.all_reduce sum over ["data"] %[[P]]
!x = tensor<2x3x8x8xf32, #dist.shard<_, _, "data", _>>
!f = tensor<4x3x3x3xf32>
!p = tensor<4x3x3x3xf32, #dist.shard<_, _, _, _, sum "data">>
!y = tensor<2x4x4x4xf32, #dist.shard<_, _, "data", _>>
func.func @forward(%x: !x, %f: !f) -> !y attributes {dist.mesh = #dist.mesh<"data" = 2>} {
  %y = graph.conv %x, %f {dilations = array<i64: 1, 1>, groups = 1 : i64, pads_high = array<i64: 0, 0>, pads_low = array<i64: 1, 1>,
      strides = array<i64: 2, 2>} : (!x, !f) -> !y
  return %y : !y
}
func.func @input(%y: !y, %f: !f) -> !x attributes {dist.mesh = #dist.mesh<"data" = 2>} {
  %x = graph.conv_input_grad %y, %f {dilations = array<i64: 1, 1>, groups = 1 : i64, pads_high = array<i64: 0, 0>, pads_low = array<i64: 1, 1>,
      strides = array<i64: 2, 2>} : (!y, !f) -> !x
  return %x : !x
}
func.func @filter(%x: !x, %y: !y) -> !f attributes {dist.mesh = #dist.mesh<"data" = 2>} {
  %p = graph.conv_filter_grad %x, %y {dilations = array<i64: 1, 1>, groups = 1 : i64, pads_high = array<i64: 0, 0>, pads_low = array<i64: 1, 1>,
      strides = array<i64: 2, 2>} : (!x, !y) -> !p
  %f = dist.reshard %p : !p -> !f
  return %f : !f
}

// -----

// Stride 2 and a window of 5.
// CHECK-LABEL: func.func @forward
// CHECK-NEXT: %[[L:.*]] = graph.slice %arg0 {starts = array<i64: 0, 0, 2, 0>{{.*}} -> tensor<2x3x2x8xf32>
// CHECK-NEXT: %[[LOW:.*]] = dist.permute %[[L]] by 1 over ["data"]
// CHECK-NEXT: %[[H:.*]] = graph.slice %arg0 {starts = array<i64: 0, 0, 0, 0>{{.*}} -> tensor<2x3x1x8xf32>
// CHECK-NEXT: %[[HIGH:.*]] = dist.permute %[[H]] by -1 over ["data"]
// CHECK-NEXT: %[[X:.*]] = graph.concat %[[LOW]], %arg0, %[[HIGH]] {dim = 2 : i64} : {{.*}} -> tensor<2x3x7x8xf32>
// CHECK-NEXT: graph.conv %[[X]], %arg1 {{.*}}pads_high = array<i64: 0, 1>, pads_low = array<i64: 0, 2>, strides = array<i64: 2, 2>}
// CHECK-LABEL: func.func @input
// CHECK-NEXT: %[[G:.*]] = graph.conv_input_grad %arg0, %arg1 {{.*}}pads_high = array<i64: 0, 1>, pads_low = array<i64: 0, 2>, strides = array<i64: 2, 2>} : {{.*}} -> tensor<2x3x7x8xf32>
// CHECK-NEXT: %[[OWN:.*]] = graph.slice %[[G]] {starts = array<i64: 0, 0, 2, 0>{{.*}} -> tensor<2x3x4x8xf32>
// CHECK-NEXT: %[[L:.*]] = graph.slice %[[G]] {starts = array<i64: 0, 0, 0, 0>{{.*}} -> tensor<2x3x2x8xf32>
// CHECK-NEXT: %[[LP:.*]] = dist.permute %[[L]] by -1 over ["data"]
// CHECK-NEXT: %[[LOW:.*]] = graph.pad %[[LP]] {low = array<i64: 0, 0, 2, 0>{{.*}} -> tensor<2x3x4x8xf32>
// CHECK-NEXT: %[[A:.*]] = graph.add %[[OWN]], %[[LOW]]
// CHECK-NEXT: %[[H:.*]] = graph.slice %[[G]] {starts = array<i64: 0, 0, 6, 0>{{.*}} -> tensor<2x3x1x8xf32>
// CHECK-NEXT: %[[HP:.*]] = dist.permute %[[H]] by 1 over ["data"]
// CHECK-NEXT: %[[HIGH:.*]] = graph.pad %[[HP]] {low = array<i64: 0, 0, 0, 0>{{.*}} -> tensor<2x3x4x8xf32>
// CHECK-NEXT: %[[B:.*]] = graph.add %[[A]], %[[HIGH]]
// CHECK-NEXT: return %[[B]]
// CHECK-LABEL: func.func @filter
// CHECK-NEXT: %[[L:.*]] = graph.slice %arg0 {starts = array<i64: 0, 0, 2, 0>{{.*}} -> tensor<2x3x2x8xf32>
// CHECK-NEXT: %[[LOW:.*]] = dist.permute %[[L]] by 1 over ["data"]
// CHECK-NEXT: %[[H:.*]] = graph.slice %arg0 {starts = array<i64: 0, 0, 0, 0>{{.*}} -> tensor<2x3x1x8xf32>
// CHECK-NEXT: %[[HIGH:.*]] = dist.permute %[[H]] by -1 over ["data"]
// CHECK-NEXT: %[[X:.*]] = graph.concat %[[LOW]], %arg0, %[[HIGH]] {dim = 2 : i64} : {{.*}} -> tensor<2x3x7x8xf32>
// CHECK-NEXT: %[[P:.*]] = graph.conv_filter_grad %[[X]], %arg1 {{.*}}pads_high = array<i64: 0, 1>, pads_low = array<i64: 0, 2>, strides = array<i64: 2, 2>}
// CHECK-NEXT: dist.all_reduce sum over ["data"] %[[P]]
!x = tensor<2x3x8x8xf32, #dist.shard<_, _, "data", _>>
!f = tensor<4x3x5x5xf32>
!p = tensor<4x3x5x5xf32, #dist.shard<_, _, _, _, sum "data">>
!y = tensor<2x4x4x4xf32, #dist.shard<_, _, "data", _>>
func.func @forward(%x: !x, %f: !f) -> !y attributes {dist.mesh = #dist.mesh<"data" = 2>} {
  %y = graph.conv %x, %f {dilations = array<i64: 1, 1>, groups = 1 : i64, pads_high = array<i64: 1, 1>, pads_low = array<i64: 2, 2>,
      strides = array<i64: 2, 2>} : (!x, !f) -> !y
  return %y : !y
}
func.func @input(%y: !y, %f: !f) -> !x attributes {dist.mesh = #dist.mesh<"data" = 2>} {
  %x = graph.conv_input_grad %y, %f {dilations = array<i64: 1, 1>, groups = 1 : i64, pads_high = array<i64: 1, 1>, pads_low = array<i64: 2, 2>,
      strides = array<i64: 2, 2>} : (!y, !f) -> !x
  return %x : !x
}
func.func @filter(%x: !x, %y: !y) -> !f attributes {dist.mesh = #dist.mesh<"data" = 2>} {
  %p = graph.conv_filter_grad %x, %y {dilations = array<i64: 1, 1>, groups = 1 : i64, pads_high = array<i64: 1, 1>, pads_low = array<i64: 2, 2>,
      strides = array<i64: 2, 2>} : (!x, !y) -> !p
  %f = dist.reshard %p : !p -> !f
  return %f : !f
}

// -----

// All padding before.
// CHECK-LABEL: func.func @forward
// CHECK-NEXT: %[[L:.*]] = graph.slice %arg0 {starts = array<i64: 0, 0, 2, 0>{{.*}} -> tensor<2x3x2x8xf32>
// CHECK-NEXT: %[[LOW:.*]] = dist.permute %[[L]] by 1 over ["data"]
// CHECK-NEXT: %[[X:.*]] = graph.concat %[[LOW]], %arg0 {dim = 2 : i64} : {{.*}} -> tensor<2x3x6x8xf32>
// CHECK-NEXT: graph.conv %[[X]], %arg1 {{.*}}pads_high = array<i64: 0, 0>, pads_low = array<i64: 0, 2>, strides = array<i64: 1, 1>}
// CHECK-LABEL: func.func @input
// CHECK-NEXT: %[[G:.*]] = graph.conv_input_grad %arg0, %arg1 {{.*}}pads_high = array<i64: 0, 0>, pads_low = array<i64: 0, 2>, strides = array<i64: 1, 1>} : {{.*}} -> tensor<2x3x6x8xf32>
// CHECK-NEXT: %[[OWN:.*]] = graph.slice %[[G]] {starts = array<i64: 0, 0, 2, 0>{{.*}} -> tensor<2x3x4x8xf32>
// CHECK-NEXT: %[[L:.*]] = graph.slice %[[G]] {starts = array<i64: 0, 0, 0, 0>{{.*}} -> tensor<2x3x2x8xf32>
// CHECK-NEXT: %[[LP:.*]] = dist.permute %[[L]] by -1 over ["data"]
// CHECK-NEXT: %[[LOW:.*]] = graph.pad %[[LP]] {low = array<i64: 0, 0, 2, 0>{{.*}} -> tensor<2x3x4x8xf32>
// CHECK-NEXT: %[[A:.*]] = graph.add %[[OWN]], %[[LOW]]
// CHECK-NEXT: return %[[A]]
// CHECK-LABEL: func.func @filter
// CHECK-NEXT: %[[L:.*]] = graph.slice %arg0 {starts = array<i64: 0, 0, 2, 0>{{.*}} -> tensor<2x3x2x8xf32>
// CHECK-NEXT: %[[LOW:.*]] = dist.permute %[[L]] by 1 over ["data"]
// CHECK-NEXT: %[[X:.*]] = graph.concat %[[LOW]], %arg0 {dim = 2 : i64} : {{.*}} -> tensor<2x3x6x8xf32>
// CHECK-NEXT: %[[P:.*]] = graph.conv_filter_grad %[[X]], %arg1 {{.*}}pads_high = array<i64: 0, 0>, pads_low = array<i64: 0, 2>, strides = array<i64: 1, 1>}
// CHECK-NEXT: dist.all_reduce sum over ["data"] %[[P]]
!x = tensor<2x3x8x8xf32, #dist.shard<_, _, "data", _>>
!f = tensor<4x3x3x3xf32>
!p = tensor<4x3x3x3xf32, #dist.shard<_, _, _, _, sum "data">>
!y = tensor<2x4x8x8xf32, #dist.shard<_, _, "data", _>>
func.func @forward(%x: !x, %f: !f) -> !y attributes {dist.mesh = #dist.mesh<"data" = 2>} {
  %y = graph.conv %x, %f {dilations = array<i64: 1, 1>, groups = 1 : i64, pads_high = array<i64: 0, 0>, pads_low = array<i64: 2, 2>,
      strides = array<i64: 1, 1>} : (!x, !f) -> !y
  return %y : !y
}
func.func @input(%y: !y, %f: !f) -> !x attributes {dist.mesh = #dist.mesh<"data" = 2>} {
  %x = graph.conv_input_grad %y, %f {dilations = array<i64: 1, 1>, groups = 1 : i64, pads_high = array<i64: 0, 0>, pads_low = array<i64: 2, 2>,
      strides = array<i64: 1, 1>} : (!y, !f) -> !x
  return %x : !x
}
func.func @filter(%x: !x, %y: !y) -> !f attributes {dist.mesh = #dist.mesh<"data" = 2>} {
  %p = graph.conv_filter_grad %x, %y {dilations = array<i64: 1, 1>, groups = 1 : i64, pads_high = array<i64: 0, 0>, pads_low = array<i64: 2, 2>,
      strides = array<i64: 1, 1>} : (!x, !y) -> !p
  %f = dist.reshard %p : !p -> !f
  return %f : !f
}

// -----

// Channels last: another dimension.
// CHECK-LABEL: func.func @forward
// CHECK-NEXT: %[[L:.*]] = graph.slice %arg0 {starts = array<i64: 0, 3, 0, 0>{{.*}} -> tensor<2x1x8x3xf32>
// CHECK-NEXT: %[[LOW:.*]] = dist.permute %[[L]] by 1 over ["data"]
// CHECK-NEXT: %[[H:.*]] = graph.slice %arg0 {starts = array<i64: 0, 0, 0, 0>{{.*}} -> tensor<2x1x8x3xf32>
// CHECK-NEXT: %[[HIGH:.*]] = dist.permute %[[H]] by -1 over ["data"]
// CHECK-NEXT: %[[X:.*]] = graph.concat %[[LOW]], %arg0, %[[HIGH]] {dim = 1 : i64} : {{.*}} -> tensor<2x6x8x3xf32>
// CHECK-NEXT: graph.conv %[[X]], %arg1 {{.*}}pads_high = array<i64: 0, 1>, pads_low = array<i64: 0, 1>, strides = array<i64: 1, 1>}
// CHECK-LABEL: func.func @input
// CHECK-NEXT: %[[G:.*]] = graph.conv_input_grad %arg0, %arg1 {{.*}}pads_high = array<i64: 0, 1>, pads_low = array<i64: 0, 1>, strides = array<i64: 1, 1>} : {{.*}} -> tensor<2x6x8x3xf32>
// CHECK-NEXT: %[[OWN:.*]] = graph.slice %[[G]] {starts = array<i64: 0, 1, 0, 0>{{.*}} -> tensor<2x4x8x3xf32>
// CHECK-NEXT: %[[L:.*]] = graph.slice %[[G]] {starts = array<i64: 0, 0, 0, 0>{{.*}} -> tensor<2x1x8x3xf32>
// CHECK-NEXT: %[[LP:.*]] = dist.permute %[[L]] by -1 over ["data"]
// CHECK-NEXT: %[[LOW:.*]] = graph.pad %[[LP]] {low = array<i64: 0, 3, 0, 0>{{.*}} -> tensor<2x4x8x3xf32>
// CHECK-NEXT: %[[A:.*]] = graph.add %[[OWN]], %[[LOW]]
// CHECK-NEXT: %[[H:.*]] = graph.slice %[[G]] {starts = array<i64: 0, 5, 0, 0>{{.*}} -> tensor<2x1x8x3xf32>
// CHECK-NEXT: %[[HP:.*]] = dist.permute %[[H]] by 1 over ["data"]
// CHECK-NEXT: %[[HIGH:.*]] = graph.pad %[[HP]] {low = array<i64: 0, 0, 0, 0>{{.*}} -> tensor<2x4x8x3xf32>
// CHECK-NEXT: %[[B:.*]] = graph.add %[[A]], %[[HIGH]]
// CHECK-NEXT: return %[[B]]
// CHECK-LABEL: func.func @filter
// CHECK-NEXT: %[[L:.*]] = graph.slice %arg0 {starts = array<i64: 0, 3, 0, 0>{{.*}} -> tensor<2x1x8x3xf32>
// CHECK-NEXT: %[[LOW:.*]] = dist.permute %[[L]] by 1 over ["data"]
// CHECK-NEXT: %[[H:.*]] = graph.slice %arg0 {starts = array<i64: 0, 0, 0, 0>{{.*}} -> tensor<2x1x8x3xf32>
// CHECK-NEXT: %[[HIGH:.*]] = dist.permute %[[H]] by -1 over ["data"]
// CHECK-NEXT: %[[X:.*]] = graph.concat %[[LOW]], %arg0, %[[HIGH]] {dim = 1 : i64} : {{.*}} -> tensor<2x6x8x3xf32>
// CHECK-NEXT: %[[P:.*]] = graph.conv_filter_grad %[[X]], %arg1 {{.*}}pads_high = array<i64: 0, 1>, pads_low = array<i64: 0, 1>, strides = array<i64: 1, 1>}
// CHECK-NEXT: dist.all_reduce sum over ["data"] %[[P]]
!x = tensor<2x8x8x3xf32, #dist.shard<_, "data", _, _>>
!f = tensor<4x3x3x3xf32>
!p = tensor<4x3x3x3xf32, #dist.shard<_, _, _, _, sum "data">>
!y = tensor<2x8x8x4xf32, #dist.shard<_, "data", _, _>>
func.func @forward(%x: !x, %f: !f) -> !y attributes {dist.mesh = #dist.mesh<"data" = 2>} {
  %y = graph.conv %x, %f {channels_last, dilations = array<i64: 1, 1>, groups = 1 : i64, pads_high = array<i64: 1, 1>, pads_low = array<i64: 1, 1>,
      strides = array<i64: 1, 1>} : (!x, !f) -> !y
  return %y : !y
}
func.func @input(%y: !y, %f: !f) -> !x attributes {dist.mesh = #dist.mesh<"data" = 2>} {
  %x = graph.conv_input_grad %y, %f {channels_last, dilations = array<i64: 1, 1>, groups = 1 : i64, pads_high = array<i64: 1, 1>, pads_low = array<i64: 1, 1>,
      strides = array<i64: 1, 1>} : (!y, !f) -> !x
  return %x : !x
}
func.func @filter(%x: !x, %y: !y) -> !f attributes {dist.mesh = #dist.mesh<"data" = 2>} {
  %p = graph.conv_filter_grad %x, %y {channels_last, dilations = array<i64: 1, 1>, groups = 1 : i64, pads_high = array<i64: 1, 1>, pads_low = array<i64: 1, 1>,
      strides = array<i64: 1, 1>} : (!x, !y) -> !p
  %f = dist.reshard %p : !p -> !f
  return %f : !f
}

// -----

// Adjacent windows that do not overlap need no halo.
// CHECK-LABEL: func.func @forward
// CHECK-NEXT: graph.conv %arg0, %arg1 {{.*}}pads_high = array<i64: 0, 0>, pads_low = array<i64: 0, 0>, strides = array<i64: 2, 2>}
// CHECK-LABEL: func.func @input
// CHECK-NEXT: %[[G:.*]] = graph.conv_input_grad %arg0, %arg1 {{.*}}pads_high = array<i64: 0, 0>, pads_low = array<i64: 0, 0>, strides = array<i64: 2, 2>} : {{.*}} -> tensor<2x3x4x8xf32>
// CHECK-NEXT: return %[[G]]
// CHECK-LABEL: func.func @filter
// CHECK-NEXT: %[[P:.*]] = graph.conv_filter_grad %arg0, %arg1 {{.*}}pads_high = array<i64: 0, 0>, pads_low = array<i64: 0, 0>, strides = array<i64: 2, 2>}
// CHECK-NEXT: dist.all_reduce sum over ["data"] %[[P]]
!x = tensor<2x3x8x8xf32, #dist.shard<_, _, "data", _>>
!f = tensor<4x3x2x2xf32>
!p = tensor<4x3x2x2xf32, #dist.shard<_, _, _, _, sum "data">>
!y = tensor<2x4x4x4xf32, #dist.shard<_, _, "data", _>>
func.func @forward(%x: !x, %f: !f) -> !y attributes {dist.mesh = #dist.mesh<"data" = 2>} {
  %y = graph.conv %x, %f {dilations = array<i64: 1, 1>, groups = 1 : i64, pads_high = array<i64: 0, 0>, pads_low = array<i64: 0, 0>,
      strides = array<i64: 2, 2>} : (!x, !f) -> !y
  return %y : !y
}
func.func @input(%y: !y, %f: !f) -> !x attributes {dist.mesh = #dist.mesh<"data" = 2>} {
  %x = graph.conv_input_grad %y, %f {dilations = array<i64: 1, 1>, groups = 1 : i64, pads_high = array<i64: 0, 0>, pads_low = array<i64: 0, 0>,
      strides = array<i64: 2, 2>} : (!y, !f) -> !x
  return %x : !x
}
func.func @filter(%x: !x, %y: !y) -> !f attributes {dist.mesh = #dist.mesh<"data" = 2>} {
  %p = graph.conv_filter_grad %x, %y {dilations = array<i64: 1, 1>, groups = 1 : i64, pads_high = array<i64: 0, 0>, pads_low = array<i64: 0, 0>,
      strides = array<i64: 2, 2>} : (!x, !y) -> !p
  %f = dist.reshard %p : !p -> !f
  return %f : !f
}
