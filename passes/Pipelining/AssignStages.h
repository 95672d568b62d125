#pragma once
#include "passes/Pipelining/Passes.h"

#include <functional>

namespace divisi::pipelining {

/// What nodes are weighed by: the seconds of an operation for one microbatch, and those of a value's way to another stage.
struct StageWeights {
  std::function<double(mlir::Operation *)> seconds;
  std::function<double(mlir::Value)> message;

  /// Of a nominal device, so that the same model is cut alike on every machine.
  static StageWeights nominal();
};

/// Writes `dist.stage` on operations and arguments of the functions with microbatches. The forward part's nodes are cut before
/// those in `cuts`, or where the slowest stage is fastest; the names of the first nodes of stages 1, 2, ... are then in `cuts`.
mlir::LogicalResult assignStages(mlir::ModuleOp module, int64_t stages, std::vector<std::string> &cuts, const StageWeights &weights);

} // namespace divisi::pipelining
