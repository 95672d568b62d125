#include "compiler/Import/Operators.h"

using namespace mlir;
using namespace divisi::compiler;
using namespace divisi::graph;
using N = NodeImporter;

static constexpr double lowestHalf = -65504; // the lowest number of float16

template <Predicate predicate> static Results comparison(N &n) {
  Value a = n.in(0), b = n.in(1);
  if (n.elementOf(a) != n.elementOf(b))
    fail("element types differ: ", n.elementOf(a), " and ", n.elementOf(b));
  auto both = n.broadcastTogether({a, b});
  return {n.compare(predicate, both[0], both[1])};
}

static Results importNot(N &n) { return {n.op<NotOp>(n.in(0))}; }

/// Whether a condition says in which rows all of x are -infinity, as PyTorch's `_safe_softmax` asks.
static bool isAllMasked(N &n, Value condition, Value x) {
  Operation *op = condition.getDefiningOp();
  while (op && isa<CastOp, BroadcastOp, ReshapeOp, ReduceMinOp>(op))
    op = op->getOperand(0).getDefiningOp();
  auto compare = dyn_cast_or_null<CompareOp>(op);
  return compare && compare.getPredicate() == Predicate::eq && compare.getLhs() == x &&
         n.knownNumber(compare.getRhs()) == minusInfinity;
}

/// Null unless the operands of Where are (IsNaN(p), 0, p), or such with a condition that says where all keys are masked, and p is
/// a softmax; then p as a safe softmax, which is zero there with the gradient zero. Exporters write so for PyTorch's attention.
static Value safeSoftmax(N &n, ArrayRef<Value> operands) {
  Value condition = operands[0], p = operands[2];
  auto isNan = condition.getDefiningOp<IsNanOp>();
  auto softmax = p.getDefiningOp<SoftmaxOp>();
  if (!softmax || n.knownNumber(operands[1]) != 0.0 || !(isNan ? isNan.getX() == p : isAllMasked(n, condition, softmax.getX())))
    return {};
  return n.op<SoftmaxOp>(softmax.getType(), softmax.getX(), softmax.getDim(), /*safe=*/true);
}

static Results importWhere(N &n) {
  auto all = n.broadcastTogether({n.in(0), n.in(1), n.in(2)});
  const bool ofAttention = CallNotes(n.node).isAttention();
  if (Value safe = safeSoftmax(n, all)) {
    if (ofAttention)
      return {safe};
    if (all[0].getDefiningOp<IsNanOp>())
      all[0] = n.op<IsNanOp>(all[0].getType(), safe); // of scores that are NaN
    all[2] = safe;
  }
  // torch.export writes a mask of booleans as zero and its type's lowest number, with which masked keys count if there are no others.
  auto masked = ofAttention && n.knownNumber(all[1]) == 0.0 ? n.knownNumber(all[2]) : std::nullopt;
  if (masked && *masked <= lowestHalf)
    all[2] = n.splatLike(all[2], minusInfinity);
  return {n.op<SelectOp>(all[1].getType(), all[0], all[1], all[2])};
}

llvm::ArrayRef<Operator> divisi::compiler::logicOperators() {
  static constexpr Operator rows[] = {
      {"And", 7, newest, binary<AndOp>},
      {"Equal", 7, newest, comparison<Predicate::eq>},
      {"Greater", 7, newest, comparison<Predicate::gt>},
      {"GreaterOrEqual", 12, newest, comparison<Predicate::ge>},
      {"Less", 7, newest, comparison<Predicate::lt>},
      {"LessOrEqual", 12, newest, comparison<Predicate::le>},
      {"Not", 1, newest, importNot},
      {"Or", 7, newest, binary<OrOp>},
      {"Where", 9, newest, importWhere},
      {"Xor", 7, newest, binary<XorOp>},
  };
  return rows;
}
