#include "codegen/Kernels/Loops.h"
#include "codegen/Kernels/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

#include <set>

using namespace mlir;

namespace divisi::codegen {
#define GEN_PASS_DEF_SPLITLOOPSPASS
#include "codegen/Kernels/Passes.h.inc"

namespace {
using arith::CmpIPredicate;

/// A loop is split into at most `mostPieces`, and at most `mostCopied` operations of a function are copied for this.
constexpr size_t mostPieces = 64;
constexpr int64_t mostCopied = 1 << 16;

/// A comparison, minimum or maximum of a loop's counter, to which something may be added, and a constant.
struct Decision {
  int64_t added, constant;
};

std::optional<Decision> decisionOf(Operation *op, Value counter) {
  auto compare = dyn_cast<arith::CmpIOp>(op);
  bool known = compare ? llvm::is_contained({CmpIPredicate::sge, CmpIPredicate::slt, CmpIPredicate::ult}, compare.getPredicate())
                       : isa<arith::MinSIOp, arith::MaxSIOp>(op);
  if (!known)
    return std::nullopt;
  auto added = addedTo(counter, op->getOperand(0));
  auto constant = added ? getConstantIntValue(op->getOperand(1)) : std::nullopt;
  return constant ? std::optional(Decision{*added, *constant}) : std::nullopt;
}

/// The numbers from which on a comparison with a constant has another truth than for the number before.
SmallVector<int64_t, 2> thresholdsOf(arith::CmpIOp compare, int64_t constant) {
  if (compare.getPredicate() == CmpIPredicate::ult) // negative numbers are the largest ones
    return {0, constant};
  return {constant};
}

/// The counter's values from which on a comparison in the loop has another truth than before.
std::set<int64_t> changesIn(scf::ForOp loop, int64_t extent) {
  std::set<int64_t> changes;
  loop.getBody()->walk([&](arith::CmpIOp compare) {
    auto decision = decisionOf(compare, loop.getInductionVar());
    if (!decision)
      return;
    for (int64_t threshold : thresholdsOf(compare, decision->constant))
      if (int64_t change = threshold - decision->added; change > 0 && change < extent)
        changes.insert(change);
  });
  return changes;
}

/// What a comparison, minimum or maximum of an index in [low, high] and a constant always is, if it is always the same.
Value decided(Operation *op, int64_t low, int64_t high, int64_t constant, OpBuilder &builder) {
  Value index = op->getOperand(0), other = op->getOperand(1);
  if (auto compare = dyn_cast<arith::CmpIOp>(op)) {
    if (llvm::any_of(thresholdsOf(compare, constant), [&](int64_t threshold) { return threshold > low && threshold <= high; }))
      return {};
    bool truth = arith::applyCmpPredicate(compare.getPredicate(), APInt(64, low, true), APInt(64, constant, true));
    return arith::ConstantIntOp::create(builder, op->getLoc(), truth, 1);
  }
  if (isa<arith::MinSIOp>(op))
    return high <= constant ? index : low >= constant ? other : Value();
  return low >= constant ? index : high <= constant ? other : Value();
}

/// Replaces what the bounds [lower, upper) of the counter decide.
void simplify(scf::ForOp loop, Value counter, int64_t lower, int64_t upper) {
  OpBuilder builder(loop);
  loop.getBody()->walk([&](Operation *op) {
    auto decision = decisionOf(op, counter);
    if (!decision)
      return;
    int64_t low = lower + decision->added, high = upper - 1 + decision->added;
    if (Value result = decided(op, low, high, decision->constant, builder)) {
      op->getResult(0).replaceAllUsesWith(result);
      op->erase();
    }
  });
}

/// Replaces a loop by one for each piece, which begins at 0, so that it may become one with its inner loops.
void split(scf::ForOp loop, int64_t extent, const std::set<int64_t> &changes, SmallVectorImpl<scf::ForOp> &pieces) {
  OpBuilder builder(loop);
  Location loc = loop.getLoc();
  SmallVector<Value> carried(loop.getInitArgs());
  SmallVector<int64_t> ends(changes.begin(), changes.end());
  ends.push_back(extent);
  for (int64_t begin = 0; int64_t end : ends) {
    Value size = arith::ConstantIndexOp::create(builder, loc, end - begin);
    auto piece = cast<scf::ForOp>(builder.clone(*loop));
    piece.setUpperBound(size);
    piece.getInitArgsMutable().assign(carried);
    carried = llvm::to_vector(ValueRange(piece.getResults()));
    OpBuilder inside = OpBuilder::atBlockBegin(piece.getBody());
    Value start = arith::ConstantIndexOp::create(inside, loc, begin);
    auto counter = arith::AddIOp::create(inside, loc, piece.getInductionVar(), start);
    piece.getInductionVar().replaceAllUsesExcept(counter, counter);
    simplify(piece, counter, begin, end);
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
      int64_t copied = 0;
      SmallVector<scf::ForOp> rest;
      addLoopsIn(function, rest);
      while (!rest.empty()) {
        scf::ForOp loop = rest.pop_back_val();
        SmallVector<scf::ForOp> pieces = {loop};
        auto extent = extentOf(loop);
        auto changes = extent ? changesIn(loop, *extent) : std::set<int64_t>();
        int64_t more = changes.empty() ? 0 : changes.size() * lengthOf(loop);
        if (more && changes.size() < mostPieces && copied + more <= mostCopied) {
          copied += more;
          pieces.clear();
          split(loop, *extent, changes, pieces);
        }
        for (scf::ForOp piece : pieces)
          addLoopsIn(piece, rest);
      }
    });
  }
};
} // namespace
} // namespace divisi::codegen
