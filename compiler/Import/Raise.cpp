#include "compiler/Import/Raise.h"
#include "dialects/Graph/GraphBuilder.h"

#include <cmath>
#include <numbers>

using namespace mlir;
using namespace divisi::graph;

//===- Values and products ------------------------------------------------===//

static bool isNear(double a, double b) { return std::abs(a - b) <= 1e-5 * std::abs(b); }

namespace {
/// The factors of a product, with all constant ones multiplied into one.
struct Product {
  double constant = 1;
  SmallVector<Value> factors;

  /// Adds the factors of a value, through multiplications and divisions by constants, but not through those that
  /// compute `leaf`.
  void add(Value value, Value leaf, int depth = 4) {
    if (auto number = splatOf(value); number && value != leaf) {
      constant *= *number;
    } else if (auto mul = value.getDefiningOp<MulOp>(); mul && value != leaf && depth > 0) {
      add(mul.getLhs(), leaf, depth - 1);
      add(mul.getRhs(), leaf, depth - 1);
    } else if (auto div = value.getDefiningOp<DivOp>(); div && value != leaf && splatOf(div.getRhs())) {
      constant /= *splatOf(div.getRhs());
      add(div.getLhs(), leaf, depth - 1);
    } else {
      factors.push_back(value);
    }
  }
  Product(Value value, Value leaf) { add(value, leaf); }
  /// Whether the product is c * x^count.
  bool isPower(double c, Value x, size_t count) const {
    return isNear(constant, c) && factors.size() == count && llvm::all_equal(factors) && factors[0] == x;
  }
};
} // namespace

/// The other summand of value + constant; null if the value is no such sum.
static Value plusConstant(Value sum, double constant) {
  auto add = sum.getDefiningOp<AddOp>();
  if (!add)
    return {};
  if (auto right = splatOf(add.getRhs()); right && isNear(*right, constant))
    return add.getLhs();
  if (auto left = splatOf(add.getLhs()); left && isNear(*left, constant))
    return add.getRhs();
  return {};
}

//===- Gelu ---------------------------------------------------------------===//

/// x if `value` is sqrt(2/pi) * (x + 0.044715 x^3).
static Value tanhArgument(Value value) {
  Product product(value, {});
  auto add = product.factors.size() == 1 ? product.factors[0].getDefiningOp<AddOp>() : AddOp();
  if (!add || !isNear(product.constant, std::sqrt(2 / std::numbers::pi)))
    return {};
  for (auto [x, cube] : {std::pair(add.getLhs(), add.getRhs()), std::pair(add.getRhs(), add.getLhs())})
    if (Product(cube, x).isPower(0.044715, x, 3))
      return x;
  return {};
}

/// The argument x of gelu, if `value` is 1 + erf(x / sqrt 2) or 1 + tanh(...), and whether it is the tanh form.
static std::pair<Value, bool> geluArgument(Value value) {
  Value inner = plusConstant(value, 1);
  if (!inner)
    return {};
  if (auto tanh = inner.getDefiningOp<TanhOp>())
    return {tanhArgument(tanh.getX()), true};
  auto erf = inner.getDefiningOp<ErfOp>();
  auto *scaled = erf ? erf.getX().getDefiningOp() : nullptr;
  if (!isa_and_nonnull<MulOp, DivOp>(scaled))
    return {};
  for (Value x : scaled->getOperands())
    if (Product(erf.getX(), x).isPower(1 / std::numbers::sqrt2, x, 1))
      return {x, false};
  return {};
}

/// Matches 0.5 * x * (1 + f(x)), with the factors in any order.
static Value raiseGelu(GraphBuilder &b, MulOp root) {
  for (Value factor : Product(root.getResult(), {}).factors) {
    auto [x, isTanh] = geluArgument(factor);
    if (!x)
      continue;
    Product product(root.getResult(), x);
    bool fits = isNear(product.constant, 0.5) && product.factors.size() == 2 &&
                llvm::is_contained(product.factors, x) && llvm::is_contained(product.factors, factor);
    if (fits)
      return b.op<GeluOp>(x, isTanh);
  }
  return {};
}

//===- RMS normalization --------------------------------------------------===//

namespace {
struct Rms {
  Value x;
  int64_t dim;
  double epsilon;
};
} // namespace

/// Matches the mean of x^2 over all dimensions from some dimension on, plus epsilon.
static std::optional<Rms> meanSquare(Value value) {
  auto add = withoutReshape(value).getDefiningOp<AddOp>();
  auto epsilon = add ? splatOf(add.getRhs()) : std::nullopt;
  if (!epsilon)
    return std::nullopt;
  auto mean = withoutReshape(add.getLhs()).getDefiningOp<MulOp>();
  auto share = mean ? splatOf(mean.getRhs()) : std::nullopt;
  auto sum = share ? withoutReshape(mean.getLhs()).getDefiningOp<ReduceSumOp>() : ReduceSumOp();
  auto square = sum ? sum.getX().getDefiningOp<MulOp>() : MulOp();
  if (!square || square.getLhs() != square.getRhs() || sum.getDims().empty())
    return std::nullopt;
  Value x = square.getLhs();
  int64_t rank = shapeOf(x).size(), dim = rank - (int64_t)sum.getDims().size();
  if (!llvm::equal(llvm::to_vector(llvm::seq<int64_t>(dim, rank)), sum.getDims()))
    return std::nullopt;
  if (!isNear(*share * llvm::product_of(shapeOf(x).drop_front(dim)), 1))
    return std::nullopt;
  return Rms{x, dim, *epsilon};
}

/// Matches x multiplied by the reciprocal root of its mean square, or divided by the root.
static std::optional<Rms> normalized(Value value) {
  auto matches = [](Value x, Value spread, bool isDivisor) -> std::optional<Rms> {
    auto broadcast = spread.getDefiningOp<BroadcastOp>();
    if (!broadcast)
      return std::nullopt;
    Value root = withoutReshape(broadcast.getX());
    std::optional<Rms> rms;
    if (auto reciprocal = root.getDefiningOp<ReciprocalOp>(); reciprocal && !isDivisor) {
      if (auto sqrt = withoutReshape(reciprocal.getX()).getDefiningOp<SqrtOp>())
        rms = meanSquare(sqrt.getX());
    } else if (auto div = root.getDefiningOp<DivOp>(); div && !isDivisor && splatOf(div.getLhs()) == 1.0) {
      if (auto sqrt = withoutReshape(div.getRhs()).getDefiningOp<SqrtOp>())
        rms = meanSquare(sqrt.getX());
    } else if (auto rsqrt = root.getDefiningOp<RsqrtOp>(); rsqrt && !isDivisor) {
      rms = meanSquare(rsqrt.getX());
    } else if (auto sqrt = root.getDefiningOp<SqrtOp>(); sqrt && isDivisor) {
      rms = meanSquare(sqrt.getX());
    }
    return rms && rms->x == x ? rms : std::nullopt;
  };
  if (auto div = value.getDefiningOp<DivOp>())
    return matches(div.getLhs(), div.getRhs(), true);
  if (auto mul = value.getDefiningOp<MulOp>())
    for (int i : {0, 1})
      if (auto rms = matches(mul->getOperand(i), mul->getOperand(1 - i), false))
        return rms;
  return std::nullopt;
}

/// Matches the normalized tensor times a scale that is broadcast along the leading dimensions.
static Value raiseRms(GraphBuilder &b, MulOp root) {
  for (int i : {0, 1}) {
    auto scale = root->getOperand(i).getDefiningOp<BroadcastOp>();
    auto rms = scale ? normalized(root->getOperand(1 - i)) : std::nullopt;
    if (!rms)
      continue;
    auto shape = shapeOf(rms->x);
    auto trailing = llvm::to_vector(llvm::seq<int64_t>(rms->dim, shape.size()));
    if (shapeOf(scale.getX()) == shape.drop_front(rms->dim) && llvm::equal(scale.getDims(), trailing))
      return b.op<RmsNormOp>(rms->x.getType(), rms->x, scale.getX(), rms->dim, llvm::APFloat(rms->epsilon));
  }
  return {};
}

void divisi::compiler::raisePatterns(func::FuncOp function) {
  SmallVector<MulOp> products(function.getBody().front().getOps<MulOp>());
  for (MulOp root : llvm::reverse(products)) {
    if (root->use_empty() || !isa<FloatType>(tensorType(root.getResult()).getElementType()))
      continue;
    OpBuilder builder(root);
    GraphBuilder b(builder, root.getLoc());
    Value raised = raiseGelu(b, root);
    if (!raised)
      raised = raiseRms(b, root);
    if (raised)
      root.getResult().replaceAllUsesWith(raised);
  }
}
