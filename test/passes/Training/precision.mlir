// RUN: divisi-opt %s --reduce-precision --split-input-file | FileCheck %s --check-prefix=ROUND
// RUN: divisi-opt %s --narrow-contractions --split-input-file | FileCheck %s --check-prefix=NARROW
// RUN: divisi-opt %s --use-tf32 --split-input-file | FileCheck %s --check-prefix=TF32

// Operands are rounded, and the result.
// ROUND-LABEL: @loss
// ROUND: %[[X:.*]] = graph.cast %arg0 : (tensor<8x4xf32>) -> tensor<8x4xbf16>
// ROUND: %[[XF:.*]] = graph.cast %[[X]] : (tensor<8x4xbf16>) -> tensor<8x4xf32>
// ROUND: %[[W:.*]] = graph.cast %arg1 : (tensor<4x2xf32>) -> tensor<4x2xbf16>
// ROUND: %[[WF:.*]] = graph.cast %[[W]]
// ROUND: %[[Y:.*]] = graph.matmul %[[XF]], %[[WF]]
// ROUND: %[[S:.*]] = graph.cast %[[Y]] : (tensor<8x2xf32>) -> tensor<8x2xbf16>
// ROUND: %[[F:.*]] = graph.cast %[[S]]
// ROUND: graph.add %[[F]], %arg2
// NARROW-LABEL: @loss
// NARROW: graph.matmul %arg0, %arg1 : (tensor<8x4xf32>
// TF32-LABEL: @loss
// TF32: graph.matmul %arg0, %arg1 {tf32}
// TF32: graph.add %{{.*}}, %arg2 : tensor<8x2xf32>
func.func @loss(%x: tensor<8x4xf32>, %w: tensor<4x2xf32>, %b: tensor<8x2xf32>) -> tensor<8x2xf32> {
  %y = graph.matmul %x, %w : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
  %z = graph.add %y, %b : tensor<8x2xf32>
  return %z : tensor<8x2xf32>
}

// -----

// If all uses of the result are rounded, they use it directly.
// NARROW-LABEL: @all_rounded
// // NARROW-NEXT: %[[Y:.*]] = graph.matmul %arg0, %arg1 : (tensor<8x4xbf16>, tensor<4x2xbf16>) -> tensor<8x2xbf16>
// NARROW-NEXT: return %[[Y]]
func.func @all_rounded(%x: tensor<8x4xbf16>, %w: tensor<4x2xbf16>) -> tensor<8x2xbf16> {
  %xf = graph.cast %x : (tensor<8x4xbf16>) -> tensor<8x4xf32>
  %wf = graph.cast %w : (tensor<4x2xbf16>) -> tensor<4x2xf32>
  %y = graph.matmul %xf, %wf : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
  %r = graph.cast %y : (tensor<8x2xf32>) -> tensor<8x2xbf16>
  return %r : tensor<8x2xbf16>
}

// -----

// Another use widens it once. An operand that was not rounded keeps the operation unchanged.
// NARROW-LABEL: @some_rounded
// NARROW: %[[Y:.*]] = graph.matmul %arg0, %arg1 : (tensor<8x4xf16>, tensor<4x2xf16>) -> tensor<8x2xf16>
// NARROW: %[[F:.*]] = graph.cast %[[Y]] : (tensor<8x2xf16>) -> tensor<8x2xf32>
// NARROW: graph.add %[[F]], %[[F]]
// NARROW: graph.matmul %arg2, %{{.*}} : (tensor<8x4xf32>, tensor<4x2xf32>)
// NARROW: return %{{.*}}, %[[Y]], %{{.*}}
func.func @some_rounded(%x: tensor<8x4xf16>, %w: tensor<4x2xf16>, %v: tensor<8x4xf32>) -> (tensor<8x2xf32>, tensor<8x2xf16>, tensor<8x2xf32>) {
  %xf = graph.cast %x : (tensor<8x4xf16>) -> tensor<8x4xf32>
  %wf = graph.cast %w : (tensor<4x2xf16>) -> tensor<4x2xf32>
  %y = graph.matmul %xf, %wf : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
  %r = graph.cast %y : (tensor<8x2xf32>) -> tensor<8x2xf16>
  %a = graph.add %y, %y : tensor<8x2xf32>
  %z = graph.matmul %v, %wf : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
  return %a, %r, %z : tensor<8x2xf32>, tensor<8x2xf16>, tensor<8x2xf32>
}
