#include "dialects/Graph/Graph.h"
#include "passes/Training/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace divisi;

namespace divisi::training {
#define GEN_PASS_DEF_GROUPBATCHNORMPASS
#include "passes/Training/Passes.h.inc"

namespace {
struct GroupBatchNormPass : impl::GroupBatchNormPassBase<GroupBatchNormPass> {
  using GroupBatchNormPassBase::GroupBatchNormPassBase;

  void runOnOperation() final {
    Builder builder(&getContext());
    auto walked = getOperation().walk([&](graph::BatchNormOp op) {
      int64_t batch = graph::shapeOf(op.getX())[0];
      if (groups < 1 || op.getDim() == 0 || batch % groups) {
        op.emitError("a batch of ") << batch << " does not divide into " << (int64_t)groups
                                    << " groups for local statistics";
        return WalkResult::interrupt();
      }
      op.setGroupsAttr(builder.getI64IntegerAttr(groups));
      return WalkResult::advance();
    });
    if (walked.wasInterrupted())
      signalPassFailure();
  }
};
} // namespace
} // namespace divisi::training
