// RUN: divisi-opt %s --make-evaluate="predictions=scores,half" --canonicalize | FileCheck %s --check-prefix=OUTPUTS
// RUN: divisi-opt %s --make-evaluate="averages" --make-train="optimizer=sgd ema=0.75" --canonicalize | FileCheck %s --check-prefix=AVERAGES
// RUN: not divisi-opt %s --make-evaluate="predictions=total" 2>&1 | FileCheck %s --check-prefix=SCALAR
// RUN: not divisi-opt %s --make-evaluate="predictions=copy" 2>&1 | FileCheck %s --check-prefix=COPY
// RUN: not divisi-opt %s --make-evaluate="predictions=none" 2>&1 | FileCheck %s --check-prefix=NONE

// SCALAR: error: --predict total: the batch of 4 does not divide its first dimension
// COPY: error: --predict copy: the model does not compute this output from an input
// NONE: error: --predict none names no output of the model beside its loss; there are: scores, half, total, copy

// Results on demand, with the inputs that they depend on; of bf16 in f32.
// OUTPUTS: func.func @evaluate(
// OUTPUTS-SAME: tensor<4x8xf32> {graph.result = {inputs = ["image"], kind = "prediction", name = "scores", when = 4 : i64}},
// OUTPUTS-SAME: tensor<4x8xf32> {graph.result = {inputs = ["image"], kind = "prediction", name = "half", when = 4 : i64}})
// OUTPUTS: %[[SCORES:.*]] = graph.matmul
// OUTPUTS: %[[HALF:.*]] = graph.cast %[[SCORES]] : (tensor<4x8xf32>) -> tensor<4x8xbf16>
// OUTPUTS: %[[WIDE:.*]] = graph.cast %[[HALF]] : (tensor<4x8xbf16>) -> tensor<4x8xf32>
// OUTPUTS: return %{{.*}}, %[[SCORES]], %[[WIDE]]

// The average moves by a quarter of its distance from the renewed parameter; an evaluation takes either.
// AVERAGES: func.func @train(
// AVERAGES-SAME: %[[EMA:[a-z0-9]+]]: tensor<8x6xf32> {graph.state = {moment = "ema", name = "fc.weight.ema", of = "fc.weight", role = "moment"}}
// AVERAGES: %[[QUARTER:.*]] = graph.constant dense<2.500000e-01>
// AVERAGES: %[[RENEWED:.*]] = graph.sub %{{.*}}, %{{.*}} : tensor<8x6xf32>
// AVERAGES: %[[APART:.*]] = graph.sub %[[RENEWED]], %[[EMA]]
// AVERAGES: %[[STEP:.*]] = graph.mul %[[APART]], %[[QUARTER]]
// AVERAGES: %[[MOVED:.*]] = graph.add %[[EMA]], %[[STEP]]
// AVERAGES: graph.select %{{.*}}, %[[RENEWED]], %[[MOVED]]
// AVERAGES: func.func @evaluate(
// AVERAGES-SAME: %[[WEIGHT:[a-z0-9]+]]: tensor<8x6xf32> {graph.state = {name = "fc.weight", role = "parameter", trainable = true}}
// AVERAGES-SAME: {graph.scalar = "averaged"}
// AVERAGES-SAME: %[[AVERAGE:[a-z0-9]+]]: tensor<8x6xf32> {graph.state = {moment = "ema"
// AVERAGES: %[[CHOSEN:.*]] = graph.select %{{.*}}, %[[AVERAGE]], %[[WEIGHT]]
// AVERAGES: graph.matmul %{{.*}}, %[[CHOSEN]]
func.func @loss(%w: tensor<8x6xf32> {graph.parameter = "fc.weight"}, %x: tensor<4x6xf32> {graph.input = "image"},
                %l: tensor<4xi64> {graph.input = "label", graph.label})
    -> (tensor<f32> {graph.loss}, tensor<4x8xf32> {graph.output = "scores"}, tensor<4x8xbf16> {graph.output = "half"},
        tensor<f32> {graph.output = "total"}, tensor<4x6xf32> {graph.output = "copy"}) {
  %0 = graph.matmul %x, %w {transpose_rhs} : (tensor<4x6xf32>, tensor<8x6xf32>) -> tensor<4x8xf32>
  %1 = graph.cross_entropy %0, %l : (tensor<4x8xf32>, tensor<4xi64>) -> tensor<4xf32>
  %2 = graph.reduce_sum %1 {dims = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  %3 = graph.cast %0 : (tensor<4x8xf32>) -> tensor<4x8xbf16>
  return %2, %0, %3, %2, %x : tensor<f32>, tensor<4x8xf32>, tensor<4x8xbf16>, tensor<f32>, tensor<4x6xf32>
}
