#include "compiler/Import/Operators.h"

#include <limits>

using namespace mlir;
using namespace divisi::compiler;
using namespace divisi::graph;
using N = NodeImporter;

static constexpr double minusInfinity = -std::numeric_limits<double>::infinity();

template <Predicate predicate> static Results comparison(N &n) {
  Value a = n.in(0), b = n.in(1);
  if (n.elementOf(a) != n.elementOf(b))
    fail("element types differ: ", n.elementOf(a), " and ", n.elementOf(b));
  auto both = n.broadcastTogether({a, b});
  return {n.compare(predicate, both[0], both[1])};
}

static Results importNot(N &n) { return {n.op<NotOp>(n.in(0))}; }

/// Whether a condition says in which rows all of x are -infinity.
static bool isAllMasked(N &n, Value condition, Value x) {
  Operation *op = condition.getDefiningOp();
  for (; op && isa<CastOp, BroadcastOp, ReshapeOp, ReduceMinOp, CompareOp>(op); op = op->getOperand(0).getDefiningOp())
    if (auto compare = dyn_cast<CompareOp>(op); compare && compare.getLhs() == x)
      return compare.getPredicate() == Predicate::eq && n.knownNumber(compare.getRhs()) == minusInfinity;
  return false;
}

/// Attention of PyTorch, whose exporters write NaN where all keys of a query are masked, and replace it by zero: the softmax p of
/// Where(IsNaN(p), 0, p), or of another such condition, which is zero there and so is its gradient; else null.
static Value safeSoftmax(N &n, ArrayRef<Value> all) {
  auto isNan = all[0].getDefiningOp<IsNanOp>();
  auto softmax = all[2].getDefiningOp<SoftmaxOp>();
  if (!softmax || n.knownNumber(all[1]) != 0.0 || !(isNan ? isNan.getX() == all[2] : isAllMasked(n, all[0], softmax.getX())))
    return {};
  return n.op<SoftmaxOp>(softmax.getType(), softmax.getX(), softmax.getDim(), /*safe=*/true);
}

static Results importWhere(N &n) {
  auto all = n.broadcastTogether({n.in(0), n.in(1), n.in(2)});
  const bool ofAttention = CallNotes(n.node).isAttention();
  if (Value safe = safeSoftmax(n, all)) {
    if (ofAttention)
      return {safe};
    all[0] = n.op<IsNanOp>(all[0].getType(), safe);
    all[2] = safe;
  }
  // torch.export's mask of booleans becomes the lowest number, which leaves masked keys in the sum where there are no others.
  if (auto masked = n.knownNumber(all[2]); ofAttention && masked && *masked < -1e38)
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
