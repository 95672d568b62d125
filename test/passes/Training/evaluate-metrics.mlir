// RUN: divisi-opt %s --make-evaluate="metrics=top3,perplexity" --canonicalize | FileCheck %s --check-prefix=CLASSES
// RUN: divisi-opt %S/Inputs/numbers.mlir --make-evaluate="metrics=mae label=y output=out" --canonicalize | FileCheck %s --check-prefix=NUMBERS
// RUN: not divisi-opt %s --make-evaluate="metrics=mae label=y" 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not divisi-opt %S/Inputs/numbers.mlir --make-evaluate="metrics=mae label=y" 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not divisi-opt %S/Inputs/numbers.mlir --make-evaluate="metrics=top3" 2>&1 | FileCheck %s --check-prefix=NONE

// UNKNOWN: error: --metric mae needs --output NAME: an output of the shape of 'y'
// NONE: error: --metric top3 needs a loss over classes: a cross entropy

// Sums over labels, whose number is reported.
// CLASSES: func.func @evaluate(
// CLASSES-SAME: tensor<i64> {graph.result = {kind = "count"}}, tensor<i64> {graph.result = {kind = "hits", name = "top3"}},
// CLASSES-SAME: tensor<f32> {graph.result = {kind = "surprise"}})
// CLASSES: %[[EACH:.*]] = graph.cross_entropy
// CLASSES: graph.compare {{ ?}}le
// CLASSES: %[[RANK:.*]] = graph.reduce_sum %{{.*}} {dims = array<i64: 1>} : (tensor<4x8xi64>) -> tensor<4xi64>
// CLASSES: graph.compare {{ ?}}lt %[[RANK]]
// CLASSES: %[[HITS:.*]] = graph.reduce_sum
// CLASSES: %[[SURPRISE:.*]] = graph.reduce_sum %[[EACH]]
// CLASSES: return %{{.*}}, %[[HITS]], %[[SURPRISE]]
func.func @loss(%w: tensor<8x6xf32> {graph.parameter = "fc.weight"}, %x: tensor<4x6xf32> {graph.input = "image"},
                %l: tensor<4xi64> {graph.input = "label", graph.label}) -> (tensor<f32> {graph.loss}) {
  %0 = graph.matmul %x, %w {transpose_rhs} : (tensor<4x6xf32>, tensor<8x6xf32>) -> tensor<4x8xf32>
  %1 = graph.cross_entropy %0, %l : (tensor<4x8xf32>, tensor<4xi64>) -> tensor<4xf32>
  %2 = graph.mul %1, %1 : tensor<4xf32>
  %3 = graph.reduce_sum %2 {dims = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  return %3 : tensor<f32>
}

// NUMBERS: func.func @evaluate(
// NUMBERS-SAME: tensor<f32> {graph.result = {kind = "mean", name = "mae"}})
// NUMBERS: graph.abs
