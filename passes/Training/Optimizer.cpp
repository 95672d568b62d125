#include "passes/Training/Optimizer.h"

#include <cmath>

using namespace mlir;
using namespace divisi;
using namespace divisi::training;
using B = divisi::graph::GraphBuilder;

/// A scalar broadcast to the shape of a tensor and cast to its element type.
static Value like(B &b, Value scalar, Value tensor) {
  return b.broadcast(b.cast(scalar, graph::tensorType(tensor).getElementType()), graph::shapeOf(tensor), {});
}

namespace {

/// PyTorch's torch.optim.SGD: L2 weight decay, momentum without dampening, optionally Nesterov's.
class Sgd final : public Optimizer {
public:
  explicit Sgd(const OptimizerSettings &settings) : settings(settings) {}
  SmallVector<StringRef> moments() const override {
    if (settings.momentum == 0)
      return {};
    return {"momentum"};
  }
  Value update(B &b, const Shared &shared, Value parameter, Value gradient,
               MutableArrayRef<Value> moments) const override {
    if (settings.weightDecay != 0)
      gradient = b.add(gradient, b.scale(parameter, settings.weightDecay));
    if (settings.momentum != 0) {
      moments[0] = b.add(b.scale(moments[0], settings.momentum), gradient);
      gradient = settings.nesterov ? b.add(gradient, b.scale(moments[0], settings.momentum)) : moments[0];
    }
    return b.sub(parameter, b.mul(like(b, shared.learningRate, parameter), gradient));
  }

private:
  OptimizerSettings settings;
};

/// PyTorch's torch.optim.Adam (L2 weight decay) and AdamW (decoupled): arXiv 1412.6980 and 1711.05101.
class Adam final : public Optimizer {
public:
  Adam(const OptimizerSettings &settings, bool decoupled) : settings(settings), decoupled(decoupled) {}
  SmallVector<StringRef> moments() const override { return {"exp_avg", "exp_avg_sq"}; }
  /// Bias corrections 1 - beta^t = 2 y / (1 + y) with y = tanh(-t ln(beta) / 2): computing the difference directly
  /// would lose all digits of a float in the first steps.
  void prepare(B &b, Shared &shared) const override {
    Value step = b.cast(shared.step, b.getBuilder().getF32Type());
    auto correction = [&](double beta) -> Value {
      if (beta == 0)
        return b.splatLike(step, 1);
      Value y = b.op<graph::TanhOp>(b.scale(step, -std::log(beta) / 2));
      return b.div(b.scale(y, 2), b.addConst(y, 1));
    };
    shared.stepSize = b.div(shared.learningRate, correction(settings.beta1));
    shared.denominatorScale = b.op<graph::RsqrtOp>(correction(settings.beta2));
  }
  Value update(B &b, const Shared &shared, Value parameter, Value gradient,
               MutableArrayRef<Value> moments) const override {
    if (settings.weightDecay != 0 && !decoupled)
      gradient = b.add(gradient, b.scale(parameter, settings.weightDecay));
    if (settings.weightDecay != 0 && decoupled) {
      Value factor = b.addConst(b.scale(shared.learningRate, -settings.weightDecay), 1);
      parameter = b.mul(parameter, like(b, factor, parameter));
    }
    moments[0] = b.add(b.scale(moments[0], settings.beta1), b.scale(gradient, 1 - settings.beta1));
    moments[1] = b.add(b.scale(moments[1], settings.beta2), b.scale(b.mul(gradient, gradient), 1 - settings.beta2));
    Value root = b.mul(b.op<graph::SqrtOp>(moments[1]), like(b, shared.denominatorScale, parameter));
    Value change = b.div(moments[0], b.addConst(root, settings.eps));
    return b.sub(parameter, b.mul(like(b, shared.stepSize, parameter), change));
  }

private:
  OptimizerSettings settings;
  bool decoupled;
};
} // namespace

std::unique_ptr<Optimizer> Optimizer::create(const OptimizerSettings &settings) {
  if (settings.name == "sgd")
    return std::make_unique<Sgd>(settings);
  if (settings.name == "adam" || settings.name == "adamw")
    return std::make_unique<Adam>(settings, settings.name == "adamw");
  return nullptr;
}
