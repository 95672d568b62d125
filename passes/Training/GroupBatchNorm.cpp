#include "dialects/Graph/Graph.h"
#include "passes/Training/Passes.h"
#include "passes/Training/SamplePlaces.h"

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
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (failed(group(function)))
        return signalPassFailure();
  }

  LogicalResult group(func::FuncOp function) {
    Builder builder(&getContext());
    SamplePlaces places(function);
    auto walked = function.walk([&](graph::BatchNormOp op) {
      auto isFirst = [](SamplePlace place) { return place.isFirst(); };
      if (auto samples = places.of(op.getX()); !samples.empty() && llvm::none_of(samples, isFirst)) {
        op.emitError("batch norm over parts of the batch (microbatches, local statistics) needs the samples along the first "
                     "dimension, and here they lie in another one: keep the batch whole, with global statistics");
        return WalkResult::interrupt();
      }
      int64_t batch = graph::shapeOf(op.getX())[0];
      if (groups < 1 || op.getDim() == 0 || batch % groups) {
        op.emitError("a batch of ") << batch << " does not divide into " << (int64_t)groups
                                    << " groups for local statistics";
        return WalkResult::interrupt();
      }
      op.setGroupsAttr(builder.getI64IntegerAttr(groups));
      return WalkResult::advance();
    });
    return failure(walked.wasInterrupted());
  }
};
} // namespace
} // namespace divisi::training
