// Optimizers for which a parameter is a matrix.
#include "passes/Training/UpdateParts.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace divisi;
using namespace divisi::training;
using B = divisi::graph::GraphBuilder;

/// a + weight * (b - a), the weight a scalar.
static Value lerp(B &b, Value from, Value to, Value weight) {
  Value change = b.sub(to, from);
  return b.add(from, b.mul(like(b, weight, from), change));
}

/// The root of the mean of the squares of all elements.
static Value rootMeanSquare(B &b, Value x) {
  return b.scale(norm(b, x), 1 / std::sqrt((double)graph::tensorType(x).getNumElements()));
}

namespace {

/// Adafactor (arXiv 1804.04235) as PyTorch's torch.optim.Adafactor: of a matrix, the moving averages of the squares are kept
/// by row and by column.
class Adafactor final : public Optimizer {
public:
  explicit Adafactor(const OptimizerSettings &settings) : settings(settings) {}
  bool isOfMatrices() const override { return true; }
  SmallVector<Moment> momentsOf(ArrayRef<int64_t> shape) const override {
    if (shape.size() < 2)
      return {{"variance", llvm::to_vector(shape)}};
    SmallVector<int64_t> rows(shape.drop_back()), columns(shape.drop_back(2));
    columns.push_back(shape.back());
    return {{"row_var", rows}, {"col_var", columns}};
  }
  /// The relative step min(rate, 1 / sqrt(t)), and t^-decay, the weight of new squares.
  void prepare(B &b, Shared &shared) const override {
    Value step = b.cast(shared.step, b.getBuilder().getF32Type());
    shared.stepSize = b.op<graph::MinOp>(shared.learningRate, b.op<graph::RsqrtOp>(step));
    shared.denominatorScale = b.op<graph::ExpOp>(b.scale(b.op<graph::LogOp>(step), -settings.beta2Decay));
  }
  Value update(B &b, const Shared &shared, Value parameter, Value gradient,
               MutableArrayRef<Value> moments) const override {
    Value size = rootMeanSquare(b, parameter);
    size = b.op<graph::MaxOp>(size, b.splatLike(size, settings.eps));
    bool wide = graph::tensorType(parameter).getElementType().isF64();
    double least = wide ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
    Value square = estimate(b, b.mul(gradient, gradient), shared.denominatorScale, least, moments);
    square = b.op<graph::MaxOp>(square, b.splatLike(square, least * least));
    Value change = b.mul(b.op<graph::RsqrtOp>(square), gradient), length = rootMeanSquare(b, change);
    Value rate = b.mul(size, b.cast(shared.stepSize, graph::tensorType(size).getElementType()));
    rate = b.div(rate, b.op<graph::MaxOp>(length, b.splatLike(length, 1)));
    parameter = decayed(b, parameter, shared.learningRate, settings.weightDecay);
    return descend(b, parameter, rate, change);
  }

private:
  /// Renews the moving averages; the estimated square of each element of the gradient.
  static Value estimate(B &b, Value square, Value weight, double least, MutableArrayRef<Value> moments) {
    ArrayRef<int64_t> shape = graph::shapeOf(square);
    int64_t last = (int64_t)shape.size() - 1;
    if (last < 1)
      return moments[0] = lerp(b, moments[0], square, weight);
    moments[0] = lerp(b, moments[0], b.reduceMean(square, {last}), weight);
    moments[1] = lerp(b, moments[1], b.reduceMean(square, {last - 1}), weight);
    Value mean = b.reduceMean(moments[0], {last - 1});
    mean = b.op<graph::MaxOp>(mean, b.splatLike(mean, least));
    Value columns = b.broadcastAlong(moments[1], shape, {last - 1}), rows = b.broadcastAlong(moments[0], shape, {last});
    Value product = b.mul(rows, columns);
    return b.div(product, b.broadcastAlong(mean, shape, {last - 1, last}));
  }

  OptimizerSettings settings;
};

/// Muon (kellerjordan.github.io/posts/muon) as PyTorch's torch.optim.Muon with Nesterov's momentum, in f32: the momentum of a
/// matrix made orthogonal by five Newton-Schulz iterations. AdamW updates what is no matrix.
class Muon final : public Optimizer {
public:
  explicit Muon(const OptimizerSettings &settings) : settings(settings), others(makeOthers(settings)) {}
  bool isOfMatrices() const override { return true; }
  SmallVector<Moment> momentsOf(ArrayRef<int64_t> shape) const override {
    if (shape.size() != 2)
      return others->momentsOf(shape);
    return {{"momentum_buffer", llvm::to_vector(shape)}};
  }
  void prepare(B &b, Shared &shared) const override { others->prepare(b, shared); }
  Value update(B &b, const Shared &shared, Value parameter, Value gradient,
               MutableArrayRef<Value> moments) const override {
    ArrayRef<int64_t> shape = graph::shapeOf(parameter);
    if (shape.size() != 2)
      return others->update(b, shared, parameter, gradient, moments);
    moments[0] = lerp(b, moments[0], gradient, 1 - settings.momentum);
    Value change = orthogonal(b, lerp(b, gradient, moments[0], settings.momentum));
    double rows = shape[0], columns = std::max<int64_t>(shape[1], 1);
    double factor = settings.matchRms ? 0.2 * std::sqrt(std::max(rows, columns)) : std::sqrt(std::max(1.0, rows / columns));
    parameter = decayed(b, parameter, shared.learningRate, settings.weightDecay);
    return descend(b, parameter, b.scale(shared.learningRate, factor), change);
  }

private:
  static std::unique_ptr<Optimizer> makeOthers(OptimizerSettings settings) {
    settings.optimizer = "adamw";
    return create(settings);
  }

  static Value orthogonal(B &b, Value x) {
    bool tall = graph::shapeOf(x)[0] > graph::shapeOf(x)[1];
    if (tall)
      x = b.transpose(x, {1, 0});
    Value size = norm(b, x);
    x = b.div(x, like(b, b.op<graph::MaxOp>(size, b.splatLike(size, 1e-7)), x));
    for (int i = 0; i < 5; ++i) {
      Value gram = b.matmul(x, x, false, true);
      Value quintic = b.scale(b.matmul(gram, gram), 2.0315);
      Value both = b.add(b.scale(gram, -4.775), quintic);
      Value change = b.matmul(both, x);
      x = b.add(b.scale(x, 3.4445), change);
    }
    return tall ? b.transpose(x, {1, 0}) : x;
  }

  OptimizerSettings settings;
  std::unique_ptr<Optimizer> others;
};
} // namespace

std::unique_ptr<Optimizer> training::createAdafactor(const OptimizerSettings &settings) {
  return std::make_unique<Adafactor>(settings);
}

std::unique_ptr<Optimizer> training::createMuon(const OptimizerSettings &settings) {
  return std::make_unique<Muon>(settings);
}
