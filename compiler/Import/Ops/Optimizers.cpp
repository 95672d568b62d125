// Updates of optimizers as nodes of a graph: ai.onnx.preview.training.
#include "compiler/Import/Operators.h"

using namespace mlir;
using namespace divisi::compiler;
using namespace divisi::graph;
using N = NodeImporter;

namespace {
/// The inputs of one optimized tensor: its value, its gradient, and the optimizer's states.
struct Updated {
  Value x, gradient;
  SmallVector<Value> states;
};
} // namespace

/// A scalar for each element of x.
static Value spread(N &n, Value scalar, Value x) {
  return n.broadcast(n.reshape(n.cast(scalar, n.elementOf(x)), {}), shapeOf(x), {});
}

/// Applies `update` to each tensor: it returns the new value and the new states. Inputs are the learning rate, the number
/// of steps before, the tensors, their gradients, and each state of all of them.
static Results updateAll(N &n, int64_t states, llvm::function_ref<SmallVector<Value>(const Updated &)> update) {
  int64_t kinds = 2 + states, count = (n.numInputs() - 2) / kinds;
  if (count < 1 || count * kinds != n.numInputs() - 2)
    fail("its ", n.numInputs(), " inputs are not a learning rate, a step, and ", kinds, " for each tensor");
  Results results(count * (1 + states));
  for (int64_t i = 0; i < count; ++i) {
    auto input = [&](int64_t kind) { return n.in(2 + kind * count + i); };
    Updated u{input(0), input(1), {}};
    if (!n.isFloat(u.x))
      fail("it updates tensors of the type ", n.elementOf(u.x));
    for (int64_t s = 0; s < states; ++s)
      u.states.push_back(input(2 + s));
    for (Value v : u.states)
      if (v.getType() != u.x.getType())
        fail("the state ", v.getType(), " is not of the tensor's type ", u.x.getType());
    if (u.gradient.getType() != u.x.getType())
      fail("the gradient ", u.gradient.getType(), " is not of the tensor's type ", u.x.getType());
    for (auto [k, value] : llvm::enumerate(update(u)))
      results[k * count + i] = value;
  }
  return results;
}

/// The gradient with that of norm_coefficient / 2 * |x|^2.
static Value regularized(N &n, const Updated &u) {
  return n.add(n.scale(u.x, n.number("norm_coefficient", 0)), u.gradient);
}

static Results importAdagrad(N &n) {
  return updateAll(n, 1, [&](const Updated &u) -> SmallVector<Value> {
    Value g = regularized(n, u), sum = n.add(u.states[0], n.mul(g, g));
    Value decay = n.addConst(n.scale(spread(n, n.in(1), u.x), n.number("decay_factor", 0)), 1);
    Value rate = n.div(spread(n, n.in(0), u.x), decay);
    Value divisor = n.addConst(n.op<SqrtOp>(sum), n.number("epsilon", 0));
    return {n.sub(u.x, n.div(n.mul(rate, g), divisor)), sum};
  });
}

static Results importAdam(N &n) {
  double alpha = n.number("alpha", 0.9f), beta = n.number("beta", 0.999f);
  return updateAll(n, 2, [&](const Updated &u) -> SmallVector<Value> {
    Value g = regularized(n, u), step = spread(n, n.in(1), u.x), rate = spread(n, n.in(0), u.x);
    Value added = n.scale(g, 1 - alpha);
    Value mean = n.add(n.scale(u.states[0], alpha), added);
    Value addedSquare = n.scale(n.mul(g, g), 1 - beta);
    Value square = n.add(n.scale(u.states[1], beta), addedSquare);
    auto missing = [&](double by) { return n.addConst(n.neg(n.op<PowOp>(n.splatLike(step, by), step)), 1); };
    Value first = n.compareTo(Predicate::le, step, 0), one = n.splatLike(step, 1);
    Value ofMean = n.select(first, one, missing(alpha));
    Value correction = n.div(n.op<SqrtOp>(n.select(first, one, missing(beta))), ofMean);
    Value divisor = n.addConst(n.op<SqrtOp>(square), n.number("epsilon", 1e-6f));
    Value x = n.sub(u.x, n.div(n.mul(n.mul(rate, correction), mean), divisor));
    return {n.scale(x, 1 - n.number("norm_coefficient_post", 0)), mean, square};
  });
}

static Results importMomentum(N &n) {
  double alpha = n.number("alpha", 0), beta = n.number("beta", 0);
  std::string mode = n.text("mode", "");
  if (mode != "standard" && mode != "nesterov")
    fail("mode '", mode, "' is neither standard nor nesterov");
  return updateAll(n, 1, [&](const Updated &u) -> SmallVector<Value> {
    Value g = regularized(n, u), step = spread(n, n.in(1), u.x), rate = spread(n, n.in(0), u.x);
    Value one = n.splatLike(g, 1), decay = n.splatLike(g, beta);
    Value weight = n.select(n.compareTo(Predicate::gt, step, 0), decay, one);
    Value added = n.mul(weight, g);
    Value velocity = n.add(n.scale(u.states[0], alpha), added);
    Value direction = mode == "standard" ? velocity : n.add(g, n.scale(velocity, alpha));
    return {n.sub(u.x, n.mul(rate, direction)), velocity};
  });
}

llvm::ArrayRef<Operator> divisi::compiler::optimizerOperators() {
  static constexpr Operator rows[] = {
      {"ai.onnx.preview.training.Adagrad", 1, newest, importAdagrad},
      {"ai.onnx.preview.training.Adam", 1, newest, importAdam},
      {"ai.onnx.preview.training.Momentum", 1, newest, importMomentum},
  };
  return rows;
}
