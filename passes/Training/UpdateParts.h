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

std::unique_ptr<Optimizer> createAdafactor(const OptimizerSettings &settings);
std::unique_ptr<Optimizer> createMuon(const OptimizerSettings &settings);

} // namespace divisi::training
