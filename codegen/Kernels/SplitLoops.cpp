#include "codegen/Kernels/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"

#include <set>

using namespace mlir;

namespace divisi::codegen {
#define GEN_PASS_DEF_SPLITLOOPSPASS
#include "codegen/Kernels/Passes.h.inc"

namespace {
using arith::CmpIPredicate;

/// A loop is split into at most `mostPieces`, and no function becomes longer than `longestFunction` operations through splitting.
constexpr size_t mostPieces = 64;
constexpr int64_t longestFunction = 4096;

std::optional<int64_t> constantOf(Value value) {
  APInt constant;
  return matchPattern(value, m_ConstantInt(&constant)) ? std::optional(constant.getSExtValue()) : std::nullopt;
}

/// The bounds of a loop in steps of 1, if they are constant.
struct Bounds {
  int64_t lower, upper;
};

std::optional<Bounds> boundsOf(scf::ForOp loop) {
  auto lower = constantOf(loop.getLowerBound()), upper = constantOf(loop.getUpperBound());
  if (!lower || !upper || constantOf(loop.getStep()) != 1)
    return std::nullopt;
  return Bounds{*lower, *upper};
}

/// What is added to a loop's counter in a value that is such a sum.
std::optional<int64_t> addedTo(Value counter, Value value) {
  int64_t sum = 0;
  while (value != counter) {
    Operation *op = value.getDefiningOp();
    auto added = isa_and_nonnull<arith::AddIOp, arith::SubIOp>(op) ? constantOf(op->getOperand(1)) : std::nullopt;
    if (!added)
      return std::nullopt;
    sum += isa<arith::AddIOp>(op) ? *added : -*added;
    value = op->getOperand(0);
  }
  return sum;
}

/// The truth of a comparison of a value in [low, high] with a constant, if it is the same for all of them.
std::optional<bool> decide(CmpIPredicate predicate, int64_t low, int64_t high, int64_t constant) {
  auto holds = [&](bool always, bool never) { return always ? std::optional(true) : never ? std::optional(false) : std::nullopt; };
  switch (predicate) {
  case CmpIPredicate::sge:
    return holds(low >= constant, high < constant);
  case CmpIPredicate::slt:
    return holds(high < constant, low >= constant);
  case CmpIPredicate::ult: // that is, 0 <= value < constant
    return holds(low >= 0 && high < constant, high < 0 || low >= constant);
  default:
    return std::nullopt;
  }
}

/// The counter's values from which on a comparison in the loop is another one than before.
std::set<int64_t> changesIn(scf::ForOp loop, Bounds bounds) {
  std::set<int64_t> changes;
  Value counter = loop.getInductionVar();
  loop.getBody()->walk([&](arith::CmpIOp compare) {
    auto added = addedTo(counter, compare.getLhs()), constant = constantOf(compare.getRhs());
    if (!added || !constant)
      return;
    SmallVector<int64_t, 2> at;
    if (llvm::is_contained({CmpIPredicate::sge, CmpIPredicate::slt, CmpIPredicate::ult}, compare.getPredicate()))
      at.push_back(*constant - *added);
    if (compare.getPredicate() == CmpIPredicate::ult)
      at.push_back(-*added);
    for (int64_t change : at)
      if (change > bounds.lower && change < bounds.upper)
        changes.insert(change);
  });
  return changes;
}

/// What a comparison, minimum or maximum of an index in [low, high] and a constant always is, if it is always the same.
Value decided(Operation *op, int64_t low, int64_t high, int64_t constant, OpBuilder &builder) {
  Value index = op->getOperand(0), other = op->getOperand(1);
  if (auto compare = dyn_cast<arith::CmpIOp>(op)) {
    auto truth = decide(compare.getPredicate(), low, high, constant);
    return truth ? arith::ConstantIntOp::create(builder, op->getLoc(), *truth, 1) : Value();
  }
  if (isa<arith::MinSIOp>(op))
    return high <= constant ? index : low >= constant ? other : Value();
  if (isa<arith::MaxSIOp>(op))
    return low >= constant ? index : high <= constant ? other : Value();
  return {};
}

/// Replaces what the counter's bounds decide.
void simplify(scf::ForOp loop, Value counter, Bounds bounds) {
  OpBuilder builder(loop);
  loop.getBody()->walk([&](Operation *op) {
    if (!isa<arith::CmpIOp, arith::MinSIOp, arith::MaxSIOp>(op))
      return;
    auto added = addedTo(counter, op->getOperand(0)), constant = constantOf(op->getOperand(1));
    if (!added || !constant)
      return;
    if (Value result = decided(op, bounds.lower + *added, bounds.upper - 1 + *added, *constant, builder)) {
      op->getResult(0).replaceAllUsesWith(result);
      op->erase();
    }
  });
}

/// Replaces a loop by one for each piece, which begins at 0, so that it may become one with its inner loops.
void split(scf::ForOp loop, Bounds bounds, const std::set<int64_t> &changes, SmallVectorImpl<scf::ForOp> &pieces) {
  OpBuilder builder(loop);
  Location loc = loop.getLoc();
  SmallVector<Value> carried(loop.getInitArgs());
  SmallVector<int64_t> ends(changes.begin(), changes.end());
  ends.push_back(bounds.upper);
  Value zero = arith::ConstantIndexOp::create(builder, loc, 0);
  for (int64_t begin = bounds.lower; int64_t end : ends) {
    auto piece = cast<scf::ForOp>(builder.clone(*loop));
    Value extent;
    {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPoint(piece);
      extent = arith::ConstantIndexOp::create(builder, loc, end - begin);
    }
    piece.setLowerBound(zero);
    piece.setUpperBound(extent);
    piece.getInitArgsMutable().assign(carried);
    carried = llvm::to_vector(ValueRange(piece.getResults()));
    OpBuilder inside = OpBuilder::atBlockBegin(piece.getBody());
    Value start = arith::ConstantIndexOp::create(inside, loc, begin);
    auto counter = arith::AddIOp::create(inside, loc, piece.getInductionVar(), start);
    piece.getInductionVar().replaceAllUsesExcept(counter, counter);
    simplify(piece, counter, {begin, end});
    pieces.push_back(piece);
    begin = end;
  }
  loop.replaceAllUsesWith(carried);
  loop.erase();
}

int64_t lengthOf(Operation *op) {
  int64_t length = 0;
  op->walk([&](Operation *) { ++length; });
  return length;
}

/// Appends the loops in an operation that are in no other loop in it.
void addLoopsIn(Operation *op, SmallVectorImpl<scf::ForOp> &loops) {
  op->walk<WalkOrder::PreOrder>([&](scf::ForOp loop) {
    if (loop == op)
      return WalkResult::advance();
    loops.push_back(loop);
    return WalkResult::skip();
  });
}

struct SplitLoopsPass : impl::SplitLoopsPassBase<SplitLoopsPass> {
  void runOnOperation() override {
    getOperation()->walk([](FunctionOpInterface function) {
      int64_t length = lengthOf(function);
      SmallVector<scf::ForOp> rest;
      addLoopsIn(function, rest);
      while (!rest.empty()) {
        scf::ForOp loop = rest.pop_back_val();
        SmallVector<scf::ForOp> pieces = {loop};
        auto bounds = boundsOf(loop);
        auto changes = bounds ? changesIn(loop, *bounds) : std::set<int64_t>();
        int64_t more = changes.empty() ? 0 : changes.size() * lengthOf(loop);
        if (more && changes.size() < mostPieces && length + more <= longestFunction) {
          length += more;
          pieces.clear();
          split(loop, *bounds, changes, pieces);
        }
        for (scf::ForOp piece : pieces)
          addLoopsIn(piece, rest);
      }
    });
  }
};
} // namespace
} // namespace divisi::codegen
