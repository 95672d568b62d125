#include "dialects/Graph/GraphBuilder.h"
#include "passes/Training/Contraction.h"
#include "passes/Training/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace divisi;

namespace divisi::training {
#define GEN_PASS_DEF_REDUCEPRECISIONPASS
#include "passes/Training/Passes.h.inc"

namespace {

struct ReducePrecisionPass : impl::ReducePrecisionPassBase<ReducePrecisionPass> {
  using ReducePrecisionPassBase::ReducePrecisionPassBase;

  void runOnOperation() final {
    OpBuilder builder(&getContext());
    Type small = smallFloat(type, &getContext());
    SmallVector<Operation *> contractions;
    getOperation().walk([&](Operation *op) {
      if (isContraction(op) && graph::tensorType(op->getResult(0)).getElementType().isF32())
        contractions.push_back(op);
    });
    for (Operation *op : contractions) {
      builder.setInsertionPoint(op);
      graph::GraphBuilder b(builder, op->getLoc());
      auto rounded = [&](Value value) { return b.cast(b.cast(value, small), builder.getF32Type()); };
      for (OpOperand &operand : op->getOpOperands())
        operand.set(rounded(operand.get()));
      builder.setInsertionPointAfter(op);
      Value result = op->getResult(0), copy = b.cast(result, small);
      result.replaceAllUsesExcept(b.cast(copy, builder.getF32Type()), copy.getDefiningOp());
    }
  }
};
} // namespace
} // namespace divisi::training
