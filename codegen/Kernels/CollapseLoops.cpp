#include "codegen/Kernels/Loops.h"
#include "codegen/Kernels/Passes.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace divisi::codegen {
#define GEN_PASS_DEF_COLLAPSELOOPSPASS
#include "codegen/Kernels/Passes.h.inc"

namespace {

/// Two counters' factors in an index.
struct Factors {
  int64_t outer = 0, inner = 0;
};

/// The factors of two counters in the indices of a loop's body. Anything but sums and products with constants is
/// opaque: it may depend on the counters only through an index that is one of the collapsed loop.
class Collapsible {
public:
  Collapsible(scf::ForOp outer, scf::ForOp inner, int64_t extent) : extent(extent) {
    known[outer.getInductionVar()] = {1, 0};
    known[inner.getInductionVar()] = {0, 1};
    good = !inner.getBody()
                ->walk([&](Operation *op) { return visit(op) ? WalkResult::advance() : WalkResult::interrupt(); })
                .wasInterrupted();
  }
  explicit operator bool() const { return good; }

private:
  bool visit(Operation *op) {
    APInt factor;
    if (isa<arith::AddIOp, arith::SubIOp>(op)) {
      Factors a = known.lookup(op->getOperand(0)), b = known.lookup(op->getOperand(1));
      int64_t sign = isa<arith::SubIOp>(op) ? -1 : 1;
      known[op->getResult(0)] = {a.outer + sign * b.outer, a.inner + sign * b.inner};
      return true;
    }
    if (isa<arith::MulIOp>(op) && matchPattern(op->getOperand(1), m_ConstantInt(&factor))) {
      Factors a = known.lookup(op->getOperand(0));
      known[op->getResult(0)] = {a.outer * factor.getSExtValue(), a.inner * factor.getSExtValue()};
      return true;
    }
    return llvm::all_of(op->getOperands(), [&](Value operand) {
      Factors of = known.lookup(operand);
      return of.outer == of.inner * extent;
    });
  }

  const int64_t extent;
  llvm::DenseMap<Value, Factors> known;
  bool good;
};

/// Longer sums remain nested: each inner loop adds up its part before it is added to the whole, which rounds less.
constexpr int64_t longestSum = 1 << 20;

/// The loop that is all of another's body and goes on with the values that the other carries.
scf::ForOp onlyLoopIn(scf::ForOp outer) {
  Block *body = outer.getBody();
  scf::ForOp inner = body->getOperations().size() == 2 ? dyn_cast<scf::ForOp>(body->front()) : scf::ForOp();
  bool passes = inner && llvm::equal(inner.getInitArgs(), outer.getRegionIterArgs()) &&
                llvm::all_of(outer.getRegionIterArgs(), [](Value carried) { return carried.hasOneUse(); }) &&
                llvm::equal(body->getTerminator()->getOperands(), inner.getResults());
  return passes ? inner : scf::ForOp();
}

bool collapse(scf::ForOp outer) {
  scf::ForOp inner = onlyLoopIn(outer);
  auto count = extentOf(outer), extent = inner ? extentOf(inner) : std::nullopt;
  if (!count || !extent || !Collapsible(outer, inner, *extent) ||
      (outer.getNumResults() && *count * *extent > longestSum))
    return false;
  Region *function = outer->getParentWithTrait<OpTrait::IsIsolatedFromAbove>()->getRegions().data();
  OpBuilder builder = OpBuilder::atBlockBegin(&function->front()); // not between two loops
  outer.setUpperBound(arith::ConstantIndexOp::create(builder, outer.getLoc(), *count * *extent));
  // An index is a multiple of outer * extent + inner, to which something is added: the collapsed loop's counter is the
  // inner one, and the outer one is 0.
  outer.getInductionVar().replaceAllUsesWith(arith::ConstantIndexOp::create(builder, outer.getLoc(), 0));
  inner.getInductionVar().replaceAllUsesWith(outer.getInductionVar());
  for (auto [inside, outside] : llvm::zip(inner.getRegionIterArgs(), outer.getRegionIterArgs()))
    inside.replaceAllUsesWith(outside);
  outer.getBody()->getTerminator()->setOperands(inner.getBody()->getTerminator()->getOperands());
  auto &to = outer.getBody()->getOperations(), &from = inner.getBody()->getOperations();
  to.splice(inner->getIterator(), from, from.begin(), std::prev(from.end()));
  inner.erase();
  return true;
}

struct CollapseLoopsPass : impl::CollapseLoopsPassBase<CollapseLoopsPass> {
  void runOnOperation() override {
    SmallVector<scf::ForOp> loops; // the inner ones first: those that vanish have been visited
    getOperation()->walk([&](scf::ForOp loop) { loops.push_back(loop); });
    for (scf::ForOp loop : loops)
      while (collapse(loop)) {
      }
  }
};
} // namespace
} // namespace divisi::codegen
