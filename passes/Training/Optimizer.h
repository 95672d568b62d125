#pragma once
#include "dialects/Graph/GraphBuilder.h"

#include <memory>
#include <string>

namespace divisi::training {

/// Settings of all optimizers, with PyTorch's names and defaults.
struct OptimizerSettings {
  std::string name = "sgd";
  double momentum = 0;
  bool nesterov = false;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double weightDecay = 0;
};

/// The update rule of one parameter.
class Optimizer {
public:
  /// Scalars that all parameters share, computed once per step.
  struct Shared {
    mlir::Value learningRate; // tensor<f32>
    mlir::Value step;         // tensor<i64>, 1 in the first step
    mlir::Value stepSize;     // tensor<f32>: derived from the two by the optimizer
    mlir::Value denominatorScale;
  };

  virtual ~Optimizer() = default;
  /// Names of the optimizer state of a parameter, such as exp_avg.
  virtual llvm::SmallVector<llvm::StringRef> moments() const = 0;
  virtual void prepare(graph::GraphBuilder &, Shared &) const {}
  /// Returns the new parameter and replaces `moments`, the optimizer state, by the new ones.
  virtual mlir::Value update(graph::GraphBuilder &builder, const Shared &shared, mlir::Value parameter,
                             mlir::Value gradient, llvm::MutableArrayRef<mlir::Value> moments) const = 0;

  /// Null if there is no optimizer of that name.
  static std::unique_ptr<Optimizer> create(const OptimizerSettings &settings);
};

} // namespace divisi::training
