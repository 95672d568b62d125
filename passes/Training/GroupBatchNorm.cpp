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
/// Where the samples of the batch lie in a value: in the dimension `dim`, as a digit of its index that has `outer` times as
/// many values before it. A dimension of -1: in no such order.
struct SamplePlace {
  int dim = 0;
  int64_t outer = 1;
  bool isFirst() const { return dim == 0 && outer == 1; }
};

/// The places in all values that depend on the inputs, by the operations' sharding rules.
class SamplePlaces {
public:
  explicit SamplePlaces(func::FuncOp function) {
    int64_t batch = 0; // the first dimension of the first input, and of others of its size
    for (BlockArgument argument : function.getArguments()) {
      ArrayRef<int64_t> shape = graph::shapeOf(argument);
      if (!function.getArgAttr(argument.getArgNumber(), graph::names::input) || shape.empty())
        continue;
      batch = batch ? batch : shape[0];
      if (shape[0] == batch)
        places[argument] = {};
    }
    for (Operation &op : function.getBody().front().without_terminator())
      if (auto sharded = dyn_cast<dist::ShardingRuleInterface>(op))
        add(op, sharded.getShardingRule());
  }
  std::optional<SamplePlace> of(Value value) const {
    auto it = places.find(value);
    return it == places.end() ? std::nullopt : std::optional(it->second);
  }

private:
  void add(Operation &op, const dist::ShardingRule &rule) {
    bool depends = false;
    std::optional<SamplePlace> found; // in a factor instead of a dimension
    for (auto [operand, lists] : llvm::zip(op.getOperands(), rule.operands))
      if (auto place = of(operand)) {
        depends = true;
        if (place->dim >= 0 && !found)
          found = inFactor(rule, lists[place->dim], place->outer);
      }
    for (auto [result, lists] : llvm::zip(op.getResults(), rule.results))
      if (depends)
        places[result] = found ? inDimension(rule, lists, *found) : SamplePlace{-1};
  }
  /// The factor of a dimension, major to minor, in which the digit lies.
  static std::optional<SamplePlace> inFactor(const dist::ShardingRule &rule, ArrayRef<int> factors, int64_t outer) {
    for (int factor : factors) {
      int64_t size = rule.factors[factor].size;
      if (size % outer == 0 && size > outer)
        return SamplePlace{factor, outer};
      if (outer % size != 0)
        return std::nullopt;
      outer /= size;
    }
    return std::nullopt;
  }
  static SamplePlace inDimension(const dist::ShardingRule &rule, const dist::ShardingRule::Dims &lists, SamplePlace found) {
    for (auto [d, factors] : llvm::enumerate(lists)) {
      int64_t outer = found.outer;
      for (int factor : factors) {
        if (factor == found.dim)
          return {(int)d, outer};
        outer *= rule.factors[factor].size;
      }
    }
    return {-1};
  }
  llvm::DenseMap<Value, SamplePlace> places;
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
    SamplePlaces places(function);
    auto walked = function.walk([&](graph::BatchNormOp op) {
      if (auto samples = places.of(op.getX()); samples && !samples->isFirst()) {
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
