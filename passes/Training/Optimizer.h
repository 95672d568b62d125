#pragma once
#include "dialects/Graph/GraphBuilder.h"
#include "passes/Training/OptimizerSettings.h"

#include "llvm/ADT/SmallVectorExtras.h"

#include <memory>

namespace divisi::training {

/// The sum of the squares of all elements: in f64 if `wide`, else in f32; 16 bits would overflow.
mlir::Value sumOfSquares(graph::GraphBuilder &builder, mlir::Value x, bool wide);
/// The L2 norm of all elements of the whole tensor, however it is sharded: a scalar, f64 for f64, else f32.
mlir::Value norm(graph::GraphBuilder &builder, mlir::Value x);

/// The settings as an attribute, and back: {optimizer = "adam", beta1 = 0.9, ...}.
mlir::DictionaryAttr toAttr(const OptimizerSettings &settings, mlir::MLIRContext *context);
OptimizerSettings settingsOf(mlir::DictionaryAttr attributes);

/// The update rule of one parameter.
class Optimizer {
public:
  /// Scalars that all parameters of a group share, computed once per step.
  struct Shared {
    mlir::Value learningRate; // tensor<f32>
    mlir::Value step;         // tensor<i64>, 1 in the first step
    mlir::Value stepSize;     // tensor<f32>: derived from the two by the optimizer
    mlir::Value denominatorScale;
  };

  /// Optimizer state of a parameter.
  struct Moment {
    llvm::StringRef name; // such as exp_avg
    llvm::SmallVector<int64_t> shape;
  };

  virtual ~Optimizer() = default;
  /// Names of the optimizer state of a parameter, if all of it has the parameter's shape.
  virtual llvm::SmallVector<llvm::StringRef> moments() const { return {}; }
  /// The optimizer state of a parameter of this shape.
  virtual llvm::SmallVector<Moment> momentsOf(llvm::ArrayRef<int64_t> shape) const {
    return llvm::map_to_vector(moments(), [&](llvm::StringRef name) { return Moment{name, llvm::to_vector(shape)}; });
  }
  /// Whether rows and columns matter: parameters and their state then have the shapes of the model's file.
  virtual bool isOfMatrices() const { return false; }
  virtual void prepare(graph::GraphBuilder &, Shared &) const {}
  /// Returns the new parameter and replaces `moments`, the optimizer state, by the new ones.
  virtual mlir::Value update(graph::GraphBuilder &builder, const Shared &shared, mlir::Value parameter,
                             mlir::Value gradient, llvm::MutableArrayRef<mlir::Value> moments) const = 0;
  /// The parameter after some more updates that go on as the state says: for momentum, parameter - updates * rate *
  /// momentum (SpecTrain, arXiv 1809.02839, equation 4); for Adam the corrected averages take the momentum's place (XPipe,
  /// arXiv 1911.04610). Null if the state does not say where updates go. `shared.step` is the number of updates so far.
  virtual mlir::Value predict(graph::GraphBuilder &, const Shared &, mlir::Value parameter,
                              llvm::ArrayRef<mlir::Value> moments, int64_t updates) const {
    return {};
  }

  /// The optimizer for parameters with weight decay or without. The layer-wise ones, lamb and lars, compute a trust
  /// ratio for the former. Null if there is no optimizer of that name.
  static std::unique_ptr<Optimizer> create(const OptimizerSettings &settings, bool decays = true);
};

} // namespace divisi::training
