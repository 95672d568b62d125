#include "compiler/Import/Ops/Activation.h"
#include "compiler/Import/Operators.h"

using namespace mlir;
using namespace divisi::compiler;
using namespace divisi::graph;
using N = NodeImporter;

/// x where it is positive, else `other`.
static Value wherePositive(N &n, Value x, Value other) { return n.select(n.compareTo(Predicate::gt, x, 0), x, other); }
/// alpha * (e^(x / scale) - 1) where x <= 0, else 0, without overflow; NaN for NaN.
static Value expLinear(N &n, Value x, double alpha, double scale) {
  Value none = n.splatLike(x, 0);
  Value negative = n.select(n.compareTo(Predicate::gt, x, 0), none, x);
  Value e = n.op<ExpOp>(scale == 1 ? negative : n.scale(negative, 1 / scale));
  return n.scale(n.addConst(e, -1), alpha);
}

static Value elu(N &n, Value x, double alpha) { return wherePositive(n, x, expLinear(n, x, alpha, 1)); }
static Results importElu(N &n) { return {elu(n, n.in(0), n.number("alpha", 1))}; }
static Results importCelu(N &n) {
  double alpha = n.number("alpha", 1);
  if (alpha == 0)
    fail("alpha is zero");
  return {wherePositive(n, n.in(0), expLinear(n, n.in(0), alpha, alpha))};
}
static Results importSelu(N &n) {
  Value x = n.in(0);
  double alpha = n.number("alpha", 1.67326319217681884765625), gamma = n.number("gamma", 1.05070102214813232421875);
  return {n.scale(wherePositive(n, x, expLinear(n, x, alpha, 1)), gamma)};
}
static Value leakyRelu(N &n, Value x, double alpha) { return wherePositive(n, x, n.scale(x, alpha)); }
static Results importLeakyRelu(N &n) { return {leakyRelu(n, n.in(0), n.number("alpha", 0.01f))}; }
static Results importPRelu(N &n) {
  Value x = n.in(0), slope = n.broadcastTo(n.in(1), shapeOf(x));
  return {wherePositive(n, x, n.mul(slope, x))};
}
static Value above(N &n, Value x, double threshold) { return n.keepWhere(n.compareTo(Predicate::gt, x, threshold), x); }
static Results importThresholdedRelu(N &n) { return {above(n, n.in(0), n.number("alpha", 1))}; }
static Results importShrink(N &n) {
  Value x = n.in(0);
  double bias = n.number("bias", 0), lambda = n.number("lambd", 0.5);
  Value high = n.addConst(x, -bias);
  high = n.keepWhere(n.compareTo(Predicate::gt, x, lambda), high);
  Value low = n.addConst(x, bias);
  return {n.select(n.compareTo(Predicate::lt, x, -lambda), low, high)};
}

static Results importGelu(N &n) {
  std::string form = n.text("approximate", "none");
  if (form != "none" && form != "tanh")
    fail("approximate '", form, "' is neither none nor tanh");
  return {n.op<GeluOp>(n.in(0), form == "tanh")};
}

/// max(0, min(1, alpha * x + beta)). Its gradient at 0 and 1 is zero, as in PyTorch; that of Clip is not.
static Value hardSigmoid(N &n, Value x, double alpha, double beta) {
  Value line = n.op<ReluOp>(n.addConst(n.scale(x, alpha), beta));
  Value one = n.splatLike(x, 1);
  return n.select(n.compareTo(Predicate::ge, line, 1), one, line);
}
static Results importHardSigmoid(N &n) {
  return {hardSigmoid(n, n.in(0), n.number("alpha", 0.2f), n.number("beta", 0.5))};
}
static Results importHardSwish(N &n) { return {n.mul(n.in(0), hardSigmoid(n, n.in(0), 1.0 / 6, 0.5))}; }
static Results importMish(N &n) { return {n.mul(n.in(0), n.op<TanhOp>(n.op<SoftplusOp>(n.in(0))))}; }
static Results importSwish(N &n) {
  Value x = n.in(0);
  double alpha = n.number("alpha", 1);
  return {n.mul(x, n.op<SigmoidOp>(alpha == 1 ? x : n.scale(x, alpha)))};
}
static Results importSwiGlu(N &n) {
  Value a = n.in(0);
  double alpha = n.number("alpha", 1);
  return {n.binary<MulOp>(n.mul(a, n.op<SigmoidOp>(alpha == 1 ? a : n.scale(a, alpha))), n.in(1))};
}
static Value softsign(N &n, Value x) { return n.div(x, n.addConst(n.op<AbsOp>(x), 1)); }
static Results importSoftsign(N &n) { return {softsign(n, n.in(0))}; }

//===- Softmax and its kin ------------------------------------------------===//

/// Along one axis, by default the last. In PyTorch's attention the probabilities of a query whose keys are all masked are zero,
/// though the nodes that exporters write for it give NaN.
static Results importSoftmax(N &n) {
  Value x = n.in(0);
  return {n.op<SoftmaxOp>(x.getType(), x, n.axisAttr(-1, n.rankOf(x)), CallNotes(n.node).isAttention())};
}
static Results importLogSoftmax(N &n) {
  Value x = n.in(0);
  return {n.op<LogSoftmaxOp>(x.getType(), x, n.axisAttr(-1, n.rankOf(x)))};
}
/// Softmax before opset 13: over all dimensions from an axis on.
template <typename OpT> static Results flattened(N &n) {
  Value x = n.in(0);
  int64_t rank = n.rankOf(x), first = n.integer("axis", 1);
  first = first == rank ? rank : n.axis(first, rank);
  auto shape = shapeOf(x);
  int64_t rows = llvm::product_of(shape.take_front(first)), columns = llvm::product_of(shape.drop_front(first));
  Value flat = n.reshape(x, {rows, columns});
  return {n.reshape(n.op<OpT>(flat.getType(), flat, 1), shape)};
}

/// One at the first maximum along an axis, else zero.
static Value hardmax(N &n, Value x, int64_t axis) {
  Value best = n.op<ArgMaxOp>(x, axis, false);
  Value place = n.broadcastAlong(best, shapeOf(x), {axis});
  Value hit = n.compare(Predicate::eq, n.iota(shapeOf(x), axis), place);
  return n.cast(hit, n.elementOf(x));
}
static Results importHardmax(N &n) { return {hardmax(n, n.in(0), n.axisAttr(-1, n.rankOf(n.in(0))))}; }

static Results importDropout(N &n);

llvm::ArrayRef<Operator> divisi::compiler::activationOperators() {
  static constexpr Operator rows[] = {
      {"Celu", 12, newest, importCelu},
      {"Dropout", 7, newest, importDropout},
      {"Elu", 6, newest, importElu},
      {"Gelu", 20, newest, importGelu},
      {"HardSigmoid", 6, newest, importHardSigmoid},
      {"HardSwish", 14, newest, importHardSwish},
      {"Hardmax", 13, newest, importHardmax},
      {"LeakyRelu", 6, newest, importLeakyRelu},
      {"LogSoftmax", 1, 12, flattened<LogSoftmaxOp>},
      {"LogSoftmax", 13, newest, importLogSoftmax},
      {"Mish", 18, newest, importMish},
      {"PRelu", 7, newest, importPRelu},
      {"Relu", 6, newest, unary<ReluOp>},
      {"Selu", 6, newest, importSelu},
      {"Shrink", 9, newest, importShrink},
      {"Sigmoid", 6, newest, unary<SigmoidOp>},
      {"Softmax", 1, 12, flattened<SoftmaxOp>},
      {"Softmax", 13, newest, importSoftmax},
      {"Softplus", 1, newest, unary<SoftplusOp>},
      {"Softsign", 1, newest, importSoftsign},
      {"SwiGLU", 24, newest, importSwiGlu},
      {"Swish", 24, newest, importSwish},
      {"Tanh", 6, newest, unary<TanhOp>},
      {"ThresholdedRelu", 10, newest, importThresholdedRelu},
  };
  return rows;
}

//===- Functions that an attribute names ----------------------------------===//

namespace {
struct Named {
  llvm::StringLiteral name; // in lower case
  int parameters;           // alpha, beta
  double alpha, beta;       // where the attributes do not say them
  Value (*apply)(N &n, Value x, double alpha, double beta);
};
} // namespace

template <typename OpT> static Value plain(N &n, Value x, double, double) { return n.op<OpT>(x); }

static constexpr Named named[] = {
    {"affine", 2, 1, 0, [](N &n, Value x, double alpha, double beta) { return n.addConst(n.scale(x, alpha), beta); }},
    {"elu", 1, 1, 0, [](N &n, Value x, double alpha, double) { return elu(n, x, alpha); }},
    {"hardsigmoid", 2, 0.2f, 0.5, hardSigmoid},
    {"leakyrelu", 1, 0.01f, 0, [](N &n, Value x, double alpha, double) { return leakyRelu(n, x, alpha); }},
    {"relu", 0, 0, 0, plain<ReluOp>},
    {"scaledtanh", 2, 1, 1,
     [](N &n, Value x, double alpha, double beta) { return n.scale(n.op<TanhOp>(n.scale(x, beta)), alpha); }},
    {"sigmoid", 0, 0, 0, plain<SigmoidOp>},
    {"softplus", 0, 0, 0, plain<SoftplusOp>},
    {"softsign", 0, 0, 0, [](N &n, Value x, double, double) { return softsign(n, x); }},
    {"tanh", 0, 0, 0, plain<TanhOp>},
    {"thresholdedrelu", 1, 1, 0, [](N &n, Value x, double alpha, double) { return above(n, x, alpha); }},
};

SmallVector<Activation> divisi::compiler::namedActivations(N &n, llvm::ArrayRef<std::string> missing) {
  auto names = n.strings("activations").value_or(SmallVector<std::string>(missing));
  if (names.size() != missing.size())
    fail("it names ", names.size(), " activations, not ", missing.size());
  auto alphas = n.floats("activation_alpha").value_or(SmallVector<double>());
  auto betas = n.floats("activation_beta").value_or(SmallVector<double>());
  size_t nextAlpha = 0, nextBeta = 0;
  auto next = [](llvm::ArrayRef<double> numbers, size_t &index, double other) {
    return index < numbers.size() ? numbers[index++] : other;
  };
  SmallVector<Activation> result;
  for (const std::string &name : names) {
    const Named *row = llvm::find_if(named, [&](const Named &row) { return llvm::StringRef(name).equals_insensitive(row.name); });
    if (row == std::end(named))
      fail("activation '", name, "' is not known");
    double alpha = row->parameters > 0 ? next(alphas, nextAlpha, row->alpha) : 0;
    double beta = row->parameters > 1 ? next(betas, nextBeta, row->beta) : 0;
    result.push_back({row->apply, alpha, beta});
  }
  return result;
}

//===- Dropout ------------------------------------------------------------===//

static Value drop(N &n, Value x, double ratio, int64_t stream) {
  return n.op<DropoutOp>(x.getType(), x, ValueRange(), llvm::APFloat(ratio), stream);
}

/// Whether the node may be the dropout inside of scaled_dot_product_attention. PyTorch's exporters write no
/// training_mode there, and PyTorch applies this dropout in any mode.
static bool isAttentionsOwn(N &n) {
  return !n.model.options.forwardOnly && n.model.isFromPyTorch() && n.opset >= 12 && n.has(1);
}

/// Dropout is active if training_mode says so. The mask is computed by dropout of ones with the same random numbers.
static Results importDropout(N &n) {
  Value x = n.in(0);
  auto mask = n.type(shapeOf(x), n.getBuilder().getI1Type());
  double ratio = n.has(1) ? n.numberInput(1, "ratio") : n.number("ratio", 0.5);
  bool training = n.has(2) ? n.integerInput(2, "training_mode") != 0 : isAttentionsOwn(n);
  if (!training && ratio != 0)
    n.model.inactiveDropouts.push_back(describe(n.node, n.name));
  if (!training || ratio == 0)
    return {x, n.splat(mask, 1)};
  if (!(ratio > 0 && ratio < 1))
    fail("ratio ", ratio, " is not in [0, 1)");
  int64_t stream = n.model.dropouts++;
  Value kept = n.wants(1) ? drop(n, n.splatLike(x, 1), ratio, stream) : Value();
  return {drop(n, x, ratio, stream), kept ? n.compareTo(Predicate::ne, kept, 0) : Value()};
}
