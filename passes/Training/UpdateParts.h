#pragma once
#include "passes/Training/Optimizer.h"

// What update rules are made of.
namespace divisi::training {

/// A scalar broadcast to the shape of a tensor and cast to its element type.
mlir::Value like(graph::GraphBuilder &b, mlir::Value scalar, mlir::Value tensor);
/// parameter - rate * change.
mlir::Value descend(graph::GraphBuilder &b, mlir::Value parameter, mlir::Value rate, mlir::Value change);
/// The parameter after decoupled weight decay: parameter * (1 - rate * weightDecay).
mlir::Value decayed(graph::GraphBuilder &b, mlir::Value parameter, mlir::Value rate, double weightDecay);
/// from + weight * (to - from).
mlir::Value lerp(graph::GraphBuilder &b, mlir::Value from, mlir::Value to, double weight);

/// The gradient with L2 regularization.
mlir::Value withL2(graph::GraphBuilder &b, mlir::Value gradient, mlir::Value parameter, double weightDecay);
/// A moving average after one more value: average * keep + x * (1 - keep).
mlir::Value moved(graph::GraphBuilder &b, mlir::Value average, mlir::Value x, double keep);
/// The bias correction 1 - beta^t of moving averages; t is a floating-point scalar above 0.
mlir::Value biasCorrection(graph::GraphBuilder &b, mlir::Value t, double beta);

std::unique_ptr<Optimizer> createAdafactor(const OptimizerSettings &settings);
std::unique_ptr<Optimizer> createMuon(const OptimizerSettings &settings);
/// The optimizers of ONNX files: null for other names.
std::unique_ptr<Optimizer> createOfOnnx(const OptimizerSettings &settings);

} // namespace divisi::training
