#include "passes/Training/UpdateParts.h"

#include <cmath>

using namespace mlir;
using namespace divisi;
using namespace divisi::training;
using B = divisi::graph::GraphBuilder;
using graph::Predicate;

static bool isDouble(Value x) { return graph::tensorType(x).getElementType().isF64(); }

Value training::sumOfSquares(B &b, Value x, bool wide) {
  x = b.cast(x, wide ? Type(b.getBuilder().getF64Type()) : b.getBuilder().getF32Type());
  return b.sumAll(b.mul(x, x));
}

Value training::norm(B &b, Value x) { return b.op<graph::SqrtOp>(sumOfSquares(b, x, isDouble(x))); }

Value training::like(B &b, Value scalar, Value tensor) {
  return b.broadcast(b.cast(scalar, graph::tensorType(tensor).getElementType()), graph::shapeOf(tensor), {});
}

Value training::moved(B &b, Value average, Value x, double keep) {
  Value added = b.scale(x, 1 - keep);
  return b.add(b.scale(average, keep), added);
}

Value training::descend(B &b, Value parameter, Value rate, Value change) {
  return b.sub(parameter, b.mul(like(b, rate, parameter), change));
}

Value training::withL2(B &b, Value gradient, Value parameter, double weightDecay) {
  return weightDecay == 0 ? gradient : b.add(gradient, b.scale(parameter, weightDecay));
}

/// 1 - beta^t = 2 y / (1 + y) with y = tanh(-t ln(beta) / 2): computing the difference directly would lose all digits of a
/// float in the first steps.
Value training::biasCorrection(B &b, Value t, double beta) {
  if (beta == 0)
    return b.splatLike(t, 1);
  Value y = b.op<graph::TanhOp>(b.scale(t, -std::log(beta) / 2));
  Value below = b.addConst(y, 1);
  return b.div(b.scale(y, 2), below);
}

Value training::lerp(B &b, Value from, Value to, double weight) { return b.add(from, b.scale(b.sub(to, from), weight)); }
Value training::decayed(B &b, Value parameter, Value rate, double weightDecay) {
  if (weightDecay == 0)
    return parameter;
  return b.mul(parameter, like(b, b.addConst(b.scale(rate, -weightDecay), 1), parameter));
}

/// `ratio` where both norms are positive, else 1.
static Value trustRatio(B &b, Value ratio, Value one, Value other) {
  Value positive = b.compareConst(Predicate::gt, b.op<graph::MinOp>(one, other), 0);
  return b.select(positive, ratio, b.splatLike(ratio, 1));
}

namespace {

/// PyTorch's torch.optim.SGD: L2 weight decay, momentum without dampening, optionally Nesterov's.
class Sgd : public Optimizer {
public:
  explicit Sgd(const OptimizerSettings &settings) : settings(settings) {}
  SmallVector<StringRef> moments() const override {
    if (settings.momentum == 0)
      return {};
    return {"momentum"};
  }
  Value update(B &b, const Shared &shared, Value parameter, Value gradient,
               MutableArrayRef<Value> moments) const override {
    return move(b, shared, parameter, withL2(b, gradient, parameter, settings.weightDecay), moments);
  }
  Value predict(B &b, const Shared &shared, Value parameter, ArrayRef<Value> moments, int64_t updates) const override {
    return moments.empty() ? Value() : descend(b, parameter, b.scale(shared.learningRate, updates), moments[0]);
  }

protected:
  Value move(B &b, const Shared &shared, Value parameter, Value gradient, MutableArrayRef<Value> moments) const {
    if (settings.momentum != 0) {
      moments[0] = b.add(b.scale(moments[0], settings.momentum), gradient);
      gradient = settings.nesterov ? b.add(gradient, b.scale(moments[0], settings.momentum)) : moments[0];
    }
    return descend(b, parameter, shared.learningRate, gradient);
  }

  OptimizerSettings settings;
};

/// LARS (arXiv 1708.03888), with the learning rate outside of the momentum as in SGD: the gradient with L2 weight decay
/// times trust coefficient * |parameter| / (|gradient| + weight decay * |parameter| + eps).
class Lars final : public Sgd {
public:
  using Sgd::Sgd;
  Value update(B &b, const Shared &shared, Value parameter, Value gradient,
               MutableArrayRef<Value> moments) const override {
    Value size = norm(b, parameter), slope = norm(b, gradient);
    Value denominator = b.addConst(b.add(slope, b.scale(size, settings.weightDecay)), settings.eps);
    Value ratio = trustRatio(b, b.div(b.scale(size, settings.trustCoefficient), denominator), size, slope);
    gradient = withL2(b, gradient, parameter, settings.weightDecay);
    return move(b, shared, parameter, b.mul(like(b, ratio, parameter), gradient), moments);
  }
};

/// Adagrad (Duchi, Hazan, Singer, JMLR 12, 2011) as PyTorch's torch.optim.Adagrad with lr_decay 0: L2 weight decay.
class Adagrad final : public Optimizer {
public:
  explicit Adagrad(const OptimizerSettings &settings) : settings(settings) {}
  SmallVector<StringRef> moments() const override { return {"sum"}; }
  Value update(B &b, const Shared &shared, Value parameter, Value gradient,
               MutableArrayRef<Value> moments) const override {
    gradient = withL2(b, gradient, parameter, settings.weightDecay);
    moments[0] = b.add(moments[0], b.mul(gradient, gradient));
    Value root = b.addConst(b.op<graph::SqrtOp>(moments[0]), settings.eps);
    return descend(b, parameter, shared.learningRate, b.div(gradient, root));
  }

private:
  OptimizerSettings settings;
};

/// PyTorch's torch.optim.RMSprop: L2 weight decay; optionally centered (arXiv 1308.0850) and with momentum.
class RmsProp final : public Optimizer {
public:
  explicit RmsProp(const OptimizerSettings &settings) : settings(settings) {}
  SmallVector<StringRef> moments() const override {
    SmallVector<StringRef> names = {"square_avg"};
    if (settings.centered)
      names.push_back("grad_avg");
    if (settings.momentum != 0)
      names.push_back("momentum_buffer");
    return names;
  }
  Value update(B &b, const Shared &shared, Value parameter, Value gradient,
               MutableArrayRef<Value> moments) const override {
    gradient = withL2(b, gradient, parameter, settings.weightDecay);
    moments[0] = moved(b, moments[0], b.mul(gradient, gradient), settings.alpha);
    Value square = moments[0];
    if (settings.centered) { // rounding can make a variance negative
      moments[1] = moved(b, moments[1], gradient, settings.alpha);
      square = b.sub(square, b.mul(moments[1], moments[1]));
      square = b.op<graph::MaxOp>(square, b.splatLike(square, 0));
    }
    Value change = b.div(gradient, b.addConst(b.op<graph::SqrtOp>(square), settings.eps));
    if (settings.momentum != 0)
      change = moments.back() = b.add(b.scale(moments.back(), settings.momentum), change);
    return descend(b, parameter, shared.learningRate, change);
  }
  Value predict(B &b, const Shared &shared, Value parameter, ArrayRef<Value> moments, int64_t updates) const override {
    return settings.momentum == 0 ? Value() : descend(b, parameter, b.scale(shared.learningRate, updates), moments.back());
  }

private:
  OptimizerSettings settings;
};

/// Lion (arXiv 2302.06675, algorithm 2): the sign of a moving average; decoupled weight decay.
class Lion final : public Optimizer {
public:
  explicit Lion(const OptimizerSettings &settings) : settings(settings) {}
  SmallVector<StringRef> moments() const override { return {"exp_avg"}; }
  Value update(B &b, const Shared &shared, Value parameter, Value gradient,
               MutableArrayRef<Value> moments) const override {
    Value change = b.op<graph::SignOp>(moved(b, moments[0], gradient, settings.beta1));
    moments[0] = moved(b, moments[0], gradient, settings.beta2);
    parameter = decayed(b, parameter, shared.learningRate, settings.weightDecay);
    return descend(b, parameter, shared.learningRate, change);
  }

private:
  OptimizerSettings settings;
};

/// PyTorch's torch.optim.Adam (L2 weight decay) and AdamW (decoupled): arXiv 1412.6980 and 1711.05101.
class Adam : public Optimizer {
public:
  Adam(const OptimizerSettings &settings, bool decoupled) : settings(settings), decoupled(decoupled) {}
  SmallVector<StringRef> moments() const override { return {"exp_avg", "exp_avg_sq"}; }
  void prepare(B &b, Shared &shared) const override {
    Value step = b.cast(shared.step, b.getBuilder().getF32Type());
    shared.stepSize = b.div(shared.learningRate, biasCorrection(b, step, settings.beta1));
    shared.denominatorScale = b.op<graph::RsqrtOp>(biasCorrection(b, step, settings.beta2));
  }
  Value update(B &b, const Shared &shared, Value parameter, Value gradient,
               MutableArrayRef<Value> moments) const override {
    if (decoupled)
      parameter = decayed(b, parameter, shared.learningRate, settings.weightDecay);
    else
      gradient = withL2(b, gradient, parameter, settings.weightDecay);
    return descend(b, parameter, shared.stepSize, average(b, shared, gradient, moments));
  }
  Value predict(B &b, const Shared &shared, Value parameter, ArrayRef<Value> moments, int64_t updates) const override {
    Shared now = shared;
    prepare(b, now);
    if (decoupled)
      parameter = decayed(b, parameter, b.scale(now.learningRate, updates), settings.weightDecay);
    Value direction = change(b, now, moments);
    return descend(b, parameter, b.scale(now.stepSize, updates), direction);
  }

protected:
  /// Renews both moving averages: exp_avg / (corrected root of exp_avg_sq + eps).
  Value average(B &b, const Shared &shared, Value gradient, MutableArrayRef<Value> moments) const {
    moments[0] = moved(b, moments[0], gradient, settings.beta1);
    moments[1] = moved(b, moments[1], b.mul(gradient, gradient), settings.beta2);
    return change(b, shared, moments);
  }
  Value change(B &b, const Shared &shared, ArrayRef<Value> moments) const {
    Value scale = like(b, shared.denominatorScale, moments[1]);
    Value root = b.mul(b.op<graph::SqrtOp>(moments[1]), scale);
    return b.div(moments[0], b.addConst(root, settings.eps));
  }

  OptimizerSettings settings;

private:
  bool decoupled;
};

/// LAMB (arXiv 1904.00962, algorithm 2, phi(z) = z): Adam's change plus weight decay * parameter, times the ratio of the
/// norms of the parameter and of that sum.
class Lamb final : public Adam {
public:
  Lamb(const OptimizerSettings &settings, bool adapts) : Adam(settings, true), adapts(adapts) {}
  void prepare(B &b, Shared &shared) const override {
    Adam::prepare(b, shared);
    Value step = b.cast(shared.step, b.getBuilder().getF32Type());
    shared.stepSize = b.op<graph::ReciprocalOp>(biasCorrection(b, step, settings.beta1));
  }
  Value update(B &b, const Shared &shared, Value parameter, Value gradient,
               MutableArrayRef<Value> moments) const override {
    Value change = average(b, shared, gradient, moments);
    change = withL2(b, b.mul(like(b, shared.stepSize, parameter), change), parameter, settings.weightDecay);
    if (adapts) {
      Value size = norm(b, parameter), step = norm(b, change);
      change = b.mul(like(b, trustRatio(b, b.div(size, step), size, step), parameter), change);
    }
    return descend(b, parameter, shared.learningRate, change);
  }
  Value predict(B &, const Shared &, Value, ArrayRef<Value>, int64_t) const override { return {}; } // depends on norms

private:
  bool adapts;
};
} // namespace

DictionaryAttr training::toAttr(const OptimizerSettings &settings, MLIRContext *context) {
  Builder b(context);
  NamedAttrList attributes;
  attributes.set("optimizer", b.getStringAttr(settings.optimizer));
  for (const OptimizerConstant &constant : findOptimizer(settings.optimizer)->constants) {
    if (constant.number)
      attributes.set(constant.name, b.getF64FloatAttr(settings.*constant.number));
    else
      attributes.set(constant.name, b.getBoolAttr(settings.*constant.isOn));
  }
  return attributes.getDictionary(context);
}

OptimizerSettings training::settingsOf(DictionaryAttr attributes) {
  OptimizerSettings settings;
  if (auto name = attributes.getAs<StringAttr>("optimizer"))
    settings.optimizer = name.str();
  const OptimizerKind *kind = findOptimizer(settings.optimizer);
  for (const OptimizerConstant &constant : kind ? kind->constants : ArrayRef<OptimizerConstant>()) {
    if (auto number = attributes.getAs<FloatAttr>(constant.name); number && constant.number)
      settings.*constant.number = number.getValueAsDouble();
    if (auto isOn = attributes.getAs<BoolAttr>(constant.name); isOn && constant.isOn)
      settings.*constant.isOn = isOn.getValue();
  }
  return settings;
}

std::unique_ptr<Optimizer> Optimizer::create(const OptimizerSettings &given, bool decays) {
  OptimizerSettings settings = given;
  if (!decays)
    settings.weightDecay = 0;
  StringRef name = settings.optimizer;
  if (name == "sgd" || (name == "lars" && !decays))
    return std::make_unique<Sgd>(settings);
  if (name == "lars")
    return std::make_unique<Lars>(settings);
  if (name == "adagrad")
    return std::make_unique<Adagrad>(settings);
  if (name == "rmsprop")
    return std::make_unique<RmsProp>(settings);
  if (name == "lion")
    return std::make_unique<Lion>(settings);
  if (name == "adam" || name == "adamw")
    return std::make_unique<Adam>(settings, name == "adamw");
  if (name == "lamb")
    return std::make_unique<Lamb>(settings, decays);
  if (name == "adafactor")
    return createAdafactor(settings);
  if (name == "muon")
    return createMuon(settings);
  return createOfOnnx(settings);
}
