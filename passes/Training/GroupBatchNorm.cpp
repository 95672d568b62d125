#include "dialects/Dist/ShardingRule.h"
#include "dialects/Graph/Graph.h"
#include "passes/Training/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace divisi;

namespace divisi::training {
#define GEN_PASS_DEF_GROUPBATCHNORMPASS
#include "passes/Training/Passes.h.inc"

namespace {
/// The dimension of each value along which the samples of the batch lie in order, if there is one: the outermost factor of
/// that dimension is the inputs' first dimension.
class BatchDims {
public:
  explicit BatchDims(func::FuncOp function) {
    for (BlockArgument argument : function.getArguments())
      if (function.getArgAttr(argument.getArgNumber(), graph::names::input) && !graph::shapeOf(argument).empty())
        dims[argument] = 0;
    for (Operation &op : function.getBody().front().without_terminator())
      if (auto sharded = dyn_cast<dist::ShardingRuleInterface>(op))
        add(op, sharded.getShardingRule());
  }
  /// Whether a value depends on the batch, and then the dimension; -1 if the samples lie in no order.
  std::optional<int> of(Value value) const {
    auto it = dims.find(value);
    return it == dims.end() ? std::nullopt : std::optional(it->second);
  }

private:
  void add(Operation &op, const dist::ShardingRule &rule) {
    bool depends = false;
    int batch = -1; // a factor
    for (auto [operand, lists] : llvm::zip(op.getOperands(), rule.operands))
      if (auto dim = of(operand)) {
        depends = true;
        if (*dim >= 0 && !lists[*dim].empty())
          batch = lists[*dim].front();
      }
    for (auto [result, lists] : llvm::zip(op.getResults(), rule.results)) {
      if (!depends)
        continue;
      int &dim = dims[result] = -1;
      for (auto [d, list] : llvm::enumerate(lists))
        if (batch >= 0 && !list.empty() && list.front() == batch)
          dim = (int)d;
    }
  }
  llvm::DenseMap<Value, int> dims;
};

struct GroupBatchNormPass : impl::GroupBatchNormPassBase<GroupBatchNormPass> {
  using GroupBatchNormPassBase::GroupBatchNormPassBase;

  void runOnOperation() final {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (failed(group(function)))
        return signalPassFailure();
  }

  LogicalResult group(func::FuncOp function) {
    Builder builder(&getContext());
    BatchDims dims(function);
    auto walked = function.walk([&](graph::BatchNormOp op) {
      std::optional<int> samples = dims.of(op.getX());
      if (samples && *samples != 0) {
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
