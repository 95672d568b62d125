#include "compiler/Import/Operators.h"

#include "llvm/ADT/bit.h"

#include <numbers>

using namespace mlir;
using namespace divisi::compiler;
using namespace divisi::graph;
using N = NodeImporter;
using Dims = CheckedBuilder::Dims;

// Random numbers are a function of (seed, step, stream, index in the whole tensor), whatever the plan. A node's streams
// are numbered along with dropout's. With the attribute `seed` the numbers depend on it and on the step alone, so two
// nodes with one seed draw the same numbers.

/// Draws are made in single precision, or in double for doubles.
static Type drawType(N &n, Type element) { return element.isF64() ? element : Type(n.f32()); }

/// Uniform numbers in [0, 1). `draw` counts the draws of a node.
static Value uniform(N &n, Dims shape, Type element, int64_t draw) {
  bool seeded = n.hasAttr("seed");
  auto scalar = n.type({}, n.i64());
  int64_t seed = seeded ? llvm::bit_cast<int64_t>(n.number("seed", 0)) : 0;
  int64_t stream = seeded ? -1 - draw : n.model.dropouts++;
  Value none = n.constant(DenseElementsAttr::get(scalar, int64_t(0)));
  return n.op<RandomUniformOp>(n.type(shape, element), n.constant(DenseElementsAttr::get(scalar, seed)), none, Value(),
                               n.getBuilder().getI64IntegerAttr(stream), DenseI64ArrayAttr(),
                               seeded ? n.getBuilder().getUnitAttr() : UnitAttr());
}

/// Normal numbers by the transformation of Box and Muller (Annals of Mathematical Statistics 29(2), 1958).
static Value normal(N &n, Dims shape, Type element) {
  Value u = uniform(n, shape, element, 0), v = uniform(n, shape, element, 1);
  Value radius = n.op<SqrtOp>(n.scale(n.op<LogOp>(n.addConst(n.neg(u), 1)), -2));
  return n.mul(radius, n.op<CosOp>(n.scale(v, 2 * std::numbers::pi)));
}

static Results drawUniform(N &n, Dims shape, Type element) {
  double low = n.number("low", 0), high = n.number("high", 1);
  Value u = uniform(n, shape, drawType(n, element), 0);
  return {n.cast(n.addConst(n.scale(u, high - low), low), element)};
}
static Results drawNormal(N &n, Dims shape, Type element) {
  Value z = normal(n, shape, drawType(n, element));
  return {n.cast(n.addConst(n.scale(z, n.number("scale", 1)), n.number("mean", 0)), element)};
}

/// The element type that `dtype` names; it must be a floating-point one.
static Type floatAttr(N &n, Type missing) {
  Type element = n.elementAttr("dtype", missing);
  if (!isa<FloatType>(element))
    fail("it draws numbers of the type ", element, ", which is no floating-point type");
  return element;
}

template <Results draw(N &, Dims, Type)> static Results ofShape(N &n) {
  auto shape = n.integers("shape");
  if (!shape)
    fail("it has no shape");
  checkedElements(*shape);
  return draw(n, *shape, floatAttr(n, n.f32()));
}
template <Results draw(N &, Dims, Type)> static Results like(N &n) {
  Value x = n.in(0);
  return draw(n, shapeOf(x), floatAttr(n, n.elementOf(x)));
}

/// One with the probability that the input says, else zero. It has no gradient.
static Results importBernoulli(N &n) {
  Value p = n.in(0);
  if (!n.isFloat(p))
    fail("its probabilities are of the type ", n.elementOf(p));
  Type wide = drawType(n, n.elementOf(p));
  Value bound = n.cast(p, wide);
  Value one = n.compare(Predicate::lt, uniform(n, shapeOf(p), wide, 0), bound);
  return {n.cast(one, n.elementAttr("dtype", n.elementOf(p)))};
}

/// Classes drawn by their unnormalized log-probabilities, [batch, classes]: the number of classes but the last whose
/// cumulative probability is at most a uniform number.
static Results importMultinomial(N &n) {
  Value x = n.in(0);
  int64_t samples = n.integer("sample_size", 1);
  if (n.rankOf(x) != 2 || !n.isFloat(x) || shapeOf(x)[1] < 1 || samples < 0)
    fail("cannot draw ", samples, " classes by ", shapeText(shapeOf(x)));
  int64_t batch = shapeOf(x)[0], others = shapeOf(x)[1] - 1;
  Type wide = drawType(n, n.elementOf(x)), result = n.elementAttr("dtype", n.getBuilder().getI32Type());
  if (!others)
    return {n.splatOf({batch, samples}, result, 0)};
  x = n.cast(x, wide);
  Value p = n.op<SoftmaxOp>(x.getType(), x, 1);
  Value below = n.sliceDim(n.op<CumsumOp>(p.getType(), p, 1, false, false), 1, 0, others);
  CheckedBuilder::Shape all{batch, samples, others};
  checkedElements(all);
  Value u = n.broadcast(uniform(n, {batch, samples}, wide, 0), all, {0, 1});
  Value passed = n.compare(Predicate::le, n.broadcast(below, all, {0, 2}), u);
  return {n.cast(n.reduceSum(n.cast(passed, n.i64()), {2}), result)};
}

llvm::ArrayRef<Operator> divisi::compiler::randomOperators() {
  static constexpr Operator rows[] = {
      {"Bernoulli", 15, newest, importBernoulli},
      {"Multinomial", 7, newest, importMultinomial},
      {"RandomNormal", 1, newest, ofShape<drawNormal>},
      {"RandomNormalLike", 1, newest, like<drawNormal>},
      {"RandomUniform", 1, newest, ofShape<drawUniform>},
      {"RandomUniformLike", 1, newest, like<drawUniform>},
  };
  return rows;
}
