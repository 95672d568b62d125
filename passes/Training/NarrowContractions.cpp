#include "dialects/Graph/GraphBuilder.h"
#include "passes/Training/Contraction.h"
#include "passes/Training/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace divisi;

namespace divisi::training {
#define GEN_PASS_DEF_NARROWCONTRACTIONSPASS
#include "passes/Training/Passes.h.inc"

namespace {

/// The 16-bit value that an f32 value was cast from; null if there is none.
Value narrowOf(Value value) {
  auto cast = value.getDefiningOp<graph::CastOp>();
  if (!cast || !graph::tensorType(value).getElementType().isF32())
    return nullptr;
  Type from = graph::tensorType(cast.getX()).getElementType();
  return from.isBF16() || from.isF16() ? cast.getX() : Value();
}

struct NarrowContractionsPass : impl::NarrowContractionsPassBase<NarrowContractionsPass> {
  using NarrowContractionsPassBase::NarrowContractionsPassBase;

  void runOnOperation() final {
    SmallVector<Operation *> contractions;
    getOperation().walk([&](Operation *op) {
      if (isContraction(op))
        contractions.push_back(op);
    });
    for (Operation *op : contractions)
      narrow(op);
  }

private:
  static void narrow(Operation *op) {
    Value lhs = narrowOf(op->getOperand(0)), rhs = narrowOf(op->getOperand(1));
    if (!lhs || !rhs || graph::tensorType(lhs).getElementType() != graph::tensorType(rhs).getElementType())
      return;
    Type small = graph::tensorType(lhs).getElementType();
    llvm::SmallSetVector<Operation *, 2> casts;
    for (Value operand : op->getOperands())
      casts.insert(operand.getDefiningOp());
    op->setOperands({lhs, rhs});
    for (Operation *cast : casts)
      if (cast->use_empty())
        cast->erase();
    Value result = op->getResult(0);
    result.setType(graph::tensorType(result).clone(small));
    OpBuilder builder(op->getContext());
    builder.setInsertionPointAfter(op);
    Value wide;
    for (OpOperand &use : llvm::make_early_inc_range(result.getUses())) {
      auto cast = dyn_cast<graph::CastOp>(use.getOwner());
      if (cast && graph::tensorType(cast.getResult()).getElementType() == small) {
        cast.getResult().replaceAllUsesWith(result);
        cast.erase();
        continue;
      }
      if (!wide)
        wide = graph::GraphBuilder(builder, op->getLoc()).cast(result, builder.getF32Type());
      use.set(wide);
    }
  }
};
} // namespace
} // namespace divisi::training
