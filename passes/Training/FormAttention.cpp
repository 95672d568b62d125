#include "dialects/Graph/GraphBuilder.h"
#include "passes/Training/CausalMask.h"
#include "passes/Training/Contraction.h"
#include "passes/Training/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <cmath>

using namespace mlir;
using namespace divisi;
using namespace divisi::graph;

namespace divisi::training {
#define GEN_PASS_DEF_FORMATTENTIONPASS
#include "passes/Training/Passes.h.inc"

namespace {

/// Limits of the head's depth in GPU libraries.
constexpr int64_t depthStep = 8, mostDepth = 128;

/// Strips a constant factor from a value.
bool takeFactor(Value &value, double &scale) {
  if (auto mul = value.getDefiningOp<MulOp>())
    for (auto [factor, rest] : {std::pair(mul.getRhs(), mul.getLhs()), std::pair(mul.getLhs(), mul.getRhs())})
      if (auto c = numberOf(factor)) {
        value = rest;
        scale *= *c;
        return true;
      }
  if (auto div = value.getDefiningOp<DivOp>())
    if (auto c = numberOf(div.getRhs())) {
      value = div.getLhs();
      scale /= *c;
      return true;
    }
  return false;
}

/// Whether a gradient may flow into the value.
bool dependsOnParameters(Value value, llvm::DenseSet<Value> &seen) {
  if (!seen.insert(value).second)
    return false;
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
    return function.getArgAttr(argument.getArgNumber(), names::parameter) && !function.getArgAttr(argument.getArgNumber(), names::frozen);
  }
  return llvm::any_of(value.getDefiningOp()->getOperands(),
                      [&](Value operand) { return dependsOnParameters(operand, seen); });
}

/// softmax(scale * q k^T + masks) v, as exporters write it.
struct Pattern {
  SoftmaxOp softmax;
  MatmulOp scores, result;
  double scale = 1;
  SmallVector<Value> added; // f32
  struct Selected {
    Value condition;
    bool masksWhere; // the condition's value at masked scores
    double value;    // of a masked score
  };
  SmallVector<Selected> selected;
  Value q, k; // without their factors, as operands of the matmul

  bool match(SoftmaxOp op) {
    softmax = op;
    auto type = tensorType(op.getX());
    if (type.getRank() != 4 || op.getDim() != 3 || !type.getElementType().isF32() || !op->hasOneUse())
      return false;
    result = dyn_cast<MatmulOp>(*op->user_begin());
    if (!result || result.getLhs() != op.getResult() || result.getTransposeLhs() || result.getTransposeRhs())
      return false;
    if (!matchScores(op.getX()) || scores.getTransposeLhs())
      return false;
    q = scores.getLhs();
    k = scores.getRhs();
    while (takeFactor(q, scale)) {
    }
    while (takeFactor(k, scale)) {
    }
    int64_t depth = tensorType(q).getDimSize(3);
    llvm::DenseSet<Value> seen;
    return masksCombine() && depth % depthStep == 0 && depth <= mostDepth &&
           tensorType(result.getResult()).getDimSize(3) == depth &&
           llvm::none_of(added, [&](Value mask) { return dependsOnParameters(mask, seen); }) &&
           llvm::none_of(selected, [&](const Selected &mask) { return dependsOnParameters(mask.condition, seen); });
  }

  int64_t scoresOfHead() {
    auto type = tensorType(softmax.getX());
    return type.getDimSize(2) * type.getDimSize(3);
  }

private:
  /// Whether masks can be combined. The softmax of a query whose keys are all masked depends on the finite mask values,
  /// which must then be equal.
  bool masksCombine() const {
    return llvm::all_of(selected, [&](const Selected &mask) {
      return std::isinf(mask.value) || (added.empty() && mask.value == selected.front().value);
    });
  }

  /// Matches from the softmax back to the matmul. A mask inside a factor would be scaled by it.
  bool matchScores(Value value) {
    if ((scores = value.getDefiningOp<MatmulOp>()))
      return true;
    if (value.getDefiningOp() && !value.hasOneUse())
      return false;
    if (auto add = value.getDefiningOp<AddOp>()) {
      for (auto [mask, rest] : {std::pair(add.getRhs(), add.getLhs()), std::pair(add.getLhs(), add.getRhs())}) {
        Pattern before = *this;
        added.push_back(mask);
        if (matchScores(rest))
          return true;
        *this = before; // the other side is no matmul
      }
      return false;
    }
    if (auto select = value.getDefiningOp<SelectOp>()) {
      auto first = numberOf(select.getLhs()), second = numberOf(select.getRhs());
      bool masksTrue = first && *first <= masksFrom, masksFalse = second && *second <= masksFrom;
      if (masksTrue == masksFalse)
        return false;
      selected.push_back({select.getCondition(), masksTrue, masksTrue ? *first : *second});
      return matchScores(masksTrue ? select.getRhs() : select.getLhs());
    }
    auto masks = added.size() + selected.size();
    return takeFactor(value, scale) && matchScores(value) && added.size() + selected.size() == masks;
  }
};

class Former {
public:
  Former(Pattern pattern, Type type)
      : p(std::move(pattern)), type(type), builder(p.result), b(builder, p.softmax.getLoc()) {}

  void run() {
    Value q = arrange(p.q, {0, 2, 1, 3});
    Value k = arrange(p.k, p.scores.getTransposeRhs() ? ArrayRef<int64_t>{0, 2, 1, 3} : ArrayRef<int64_t>{0, 3, 1, 2});
    Value v = arrange(p.result.getRhs(), {0, 2, 1, 3});
    bool causal = false;
    Value bias;
    // If another mask removes the remaining keys, finite numbers still matter, and it may matter whether a key remains (`safe`);
    // the mask is then kept as numbers.
    bool alone = p.added.size() + p.selected.size() == 1, safe = p.softmax.getSafe();
    auto masksWhole = [&](double number) { return alone || (std::isinf(number) && !safe); };
    for (Value mask : p.added)
      if (auto number = causalNumber(mask); number && masksWhole(*number))
        causal = true;
      else
        addBias(bias, unrepeated(mask), /*least=*/false);
    for (const Pattern::Selected &mask : p.selected)
      if (isCausal(mask.condition, mask.masksWhere) && masksWhole(mask.value))
        causal = true;
      else
        addBias(bias, numbersOf(unrepeated(mask.condition), mask), /*least=*/p.added.empty());
    Value masked = safe && bias ? withoutMaskedRows(bias) : Value();
    auto o = tensorType(q);
    auto stats = RankedTensorType::get({o.getDimSize(0), o.getDimSize(2), o.getDimSize(1)}, builder.getF32Type());
    auto attention = AttentionOp::create(builder, b.getLoc(), TypeRange{o, stats}, q, k, v, bias,
                                         builder.getF64FloatAttr(p.scale), causal ? builder.getUnitAttr() : nullptr);
    Value result = b.transpose(b.cast(attention.getResult(), builder.getF32Type()), {0, 2, 1, 3});
    if (masked)
      result = zeroWhere(masked, result);
    p.result.getResult().replaceAllUsesWith(result);
  }

private:
  /// Queries whose keys are all masked by the bias, [batch or 1, heads or 1, queries or 1, 1]; their bias becomes zero.
  Value withoutMaskedRows(Value &bias) {
    SmallVector<int64_t> shape(shapeOf(bias));
    Value most = b.reduceMax(bias, {3}), lowest = b.splatLike(most, -std::numeric_limits<double>::infinity());
    shape[3] = 1;
    Value masked = b.reshape(b.compare(Predicate::eq, most, lowest), shape);
    bias = zeroWhere(masked, bias);
    return masked;
  }

  Value zeroWhere(Value condition, Value x) {
    Value all = b.broadcastTo(condition, shapeOf(x)), zero = b.splatLike(x, 0);
    return b.select(all, zero, x);
  }

  Value arrange(Value x, ArrayRef<int64_t> permutation) { return b.cast(b.transpose(x, permutation), type); }

  /// Zero where the condition keeps a score, else -inf or a number so large that adding the score does not change it.
  Value numbersOf(Value condition, const Pattern::Selected &mask) {
    auto of = tensorType(condition).clone(builder.getF32Type());
    Value zero = b.splat(of, 0), masked = b.splat(of, std::isinf(mask.value) ? mask.value : -1e30);
    return mask.masksWhere ? b.select(condition, masked, zero) : b.select(condition, zero, masked);
  }

  /// Adds a mask to those before it, or takes the `least` of both.
  void addBias(Value &bias, Value part, bool least) {
    SmallVector<int64_t> both(shapeOf(part));
    if (bias)
      for (auto [size, other] : llvm::zip(both, shapeOf(bias)))
        size = std::max(size, other);
    part = b.broadcastTo(part, both);
    if (bias) {
      Value before = b.broadcastTo(bias, both);
      part = least ? b.op<MinOp>(before, part) : b.add(before, part);
    }
    bias = part;
  }

  /// Removes a mask's broadcasts: its shape becomes [batch or 1, heads or 1, queries or 1, keys].
  Value unrepeated(Value mask) {
    auto broadcast = mask.getDefiningOp<BroadcastOp>();
    if (!broadcast)
      return mask;
    auto from = shapeOf(broadcast.getX());
    SmallVector<int64_t> shape(4, 1);
    for (auto [d, to] : llvm::enumerate(broadcast.getDims()))
      shape[to] = from[d];
    if (!llvm::is_sorted(broadcast.getDims()))
      return mask;
    Value part = b.reshape(broadcast.getX(), shape);
    shape[3] = shapeOf(mask)[3];
    return b.broadcastTo(part, shape);
  }

  Pattern p;
  Type type;
  OpBuilder builder;
  GraphBuilder b;
};

struct FormAttentionPass : impl::FormAttentionPassBase<FormAttentionPass> {
  using FormAttentionPassBase::FormAttentionPassBase;

  void runOnOperation() final {
    Type small = smallFloat(type, &getContext());
    SmallVector<Pattern> patterns;
    getOperation().walk([&](SoftmaxOp softmax) {
      Pattern pattern;
      if (pattern.match(softmax) && pattern.scoresOfHead() >= leastScores)
        patterns.push_back(pattern);
    });
    for (const Pattern &pattern : patterns)
      Former(pattern, small).run();
  }
};
} // namespace
} // namespace divisi::training
