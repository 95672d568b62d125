// The optimizers of ONNX's training extension, ai.onnx.preview.training, as its operators' documentation defines them. T is the
// number of updates that they get, R the learning rate.
#include "passes/Training/UpdateParts.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::training;
using B = divisi::graph::GraphBuilder;
using graph::Predicate;

namespace {
class OfOnnx : public Optimizer {
public:
  explicit OfOnnx(const OptimizerSettings &settings) : settings(settings) {}

protected:
  /// T, of the learning rate's type.
  Value count(B &b, const Shared &shared) const {
    Value step = b.cast(shared.step, graph::tensorType(shared.learningRate).getElementType());
    return settings.countsThis ? step : b.addConst(step, -1);
  }
  OptimizerSettings settings;
};

class OnnxMomentum final : public OfOnnx {
public:
  using OfOnnx::OfOnnx;
  SmallVector<StringRef> moments() const override { return {"momentum"}; }
  void prepare(B &b, Shared &shared) const override {
    if (settings.gradientFactor == 1)
      return;
    Value t = count(b, shared), factor = b.splatLike(t, settings.gradientFactor), one = b.splatLike(t, 1);
    shared.stepSize = b.select(b.compareConst(Predicate::gt, t, 0), factor, one);
  }
  Value update(B &b, const Shared &shared, Value parameter, Value gradient,
               MutableArrayRef<Value> moments) const override {
    gradient = withL2(b, gradient, parameter, settings.weightDecay);
    Value added = settings.gradientFactor == 1 ? gradient : b.mul(like(b, shared.stepSize, gradient), gradient);
    moments[0] = b.add(b.scale(moments[0], settings.momentum), added);
    Value change = settings.nesterov ? b.add(gradient, b.scale(moments[0], settings.momentum)) : moments[0];
    return descend(b, parameter, shared.learningRate, change);
  }
};

class OnnxAdagrad final : public OfOnnx {
public:
  using OfOnnx::OfOnnx;
  SmallVector<StringRef> moments() const override { return {"sum"}; }
  void prepare(B &b, Shared &shared) const override {
    shared.stepSize = shared.learningRate;
    if (settings.decayFactor != 0)
      shared.stepSize = b.div(shared.learningRate, b.addConst(b.scale(count(b, shared), settings.decayFactor), 1));
  }
  Value update(B &b, const Shared &shared, Value parameter, Value gradient,
               MutableArrayRef<Value> moments) const override {
    gradient = withL2(b, gradient, parameter, settings.weightDecay);
    moments[0] = b.add(moments[0], b.mul(gradient, gradient));
    Value root = b.addConst(b.op<graph::SqrtOp>(moments[0]), settings.eps);
    Value scaled = b.mul(like(b, shared.stepSize, parameter), gradient);
    return b.sub(parameter, b.div(scaled, root));
  }
};

class OnnxAdam final : public OfOnnx {
public:
  using OfOnnx::OfOnnx;
  SmallVector<StringRef> moments() const override { return {"exp_avg", "exp_avg_sq"}; }
  void prepare(B &b, Shared &shared) const override {
    Value t = count(b, shared), one = b.splatLike(t, 1);
    Value none = b.compareConst(Predicate::le, t, 0), some = b.select(none, one, t); // without updates, no correction
    Value ofMean = biasCorrection(b, some, settings.beta1);
    Value ofSquare = b.op<graph::SqrtOp>(biasCorrection(b, some, settings.beta2));
    Value corrected = b.div(b.mul(shared.learningRate, ofSquare), ofMean);
    shared.stepSize = b.select(none, shared.learningRate, corrected);
  }
  Value update(B &b, const Shared &shared, Value parameter, Value gradient,
               MutableArrayRef<Value> moments) const override {
    gradient = withL2(b, gradient, parameter, settings.weightDecay);
    moments[0] = moved(b, moments[0], gradient, settings.beta1);
    moments[1] = moved(b, moments[1], b.mul(gradient, gradient), settings.beta2);
    Value root = b.addConst(b.op<graph::SqrtOp>(moments[1]), settings.eps);
    Value renewed = descend(b, parameter, shared.stepSize, b.div(moments[0], root));
    return settings.decayPost == 0 ? renewed : b.scale(renewed, 1 - settings.decayPost);
  }
};
} // namespace

std::unique_ptr<Optimizer> training::createOfOnnx(const OptimizerSettings &settings) {
  if (settings.optimizer == "onnx-momentum")
    return std::make_unique<OnnxMomentum>(settings);
  if (settings.optimizer == "onnx-adagrad")
    return std::make_unique<OnnxAdagrad>(settings);
  if (settings.optimizer == "onnx-adam")
    return std::make_unique<OnnxAdam>(settings);
  return nullptr;
}
