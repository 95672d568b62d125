#include "dialects/Dist/Sync.h"
#include "dialects/Graph/GraphBuilder.h"
#include "dialects/Graph/Nodes.h"
#include "passes/Partitioning/Passes.h"

using namespace mlir;

namespace divisi::partitioning {
#define GEN_PASS_DEF_SEPARATEREPLICASPASS
#include "passes/Partitioning/Passes.h.inc"

using namespace dist;

namespace {

/// Makes a partitioned training step one of each replica alone.
class Separation {
public:
  Separation(func::FuncOp function, StringRef mode) : function(function), mode(mode) {
    mesh = toMesh(function->getAttrOfType<MeshAttr>(dist::names::partitioned));
    replicas = mesh.find(replicaAxis);
  }

  LogicalResult run() {
    if (!replicas)
      return function.emitError("--sync ") << mode << " needs an axis '" << replicaAxis << "' in the mesh";
    if (failed(checkArguments()))
      return failure();
    for (Operation &op : llvm::make_early_inc_range(function.getBody().front().without_terminator()))
      if (failed(separate(op)))
        return failure();
    return success();
  }

private:
  bool isSplit(RankedTensorType type) const {
    return llvm::any_of(toSharding(type, mesh).dims, [&](const Axes &axes) { return llvm::is_contained(axes, *replicas); });
  }

  /// Every replica needs a share of the batch, all of the same size, and state of its own.
  LogicalResult checkArguments() {
    bool shares = false;
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      auto global = function.getArgAttrOfType<TypeAttr>(i, dist::names::global);
      bool split = global && isSplit(cast<RankedTensorType>(global.getValue()));
      if (auto state = function.getArgAttrOfType<DictionaryAttr>(i, graph::names::state)) {
        auto name = state.getAs<StringAttr>("name"), role = state.getAs<StringAttr>("role");
        if (split)
          return function.emitError("--sync ")
                 << mode << " gives every replica a state of its own, but the plan splits " << name << " over '" << replicaAxis
                 << "': leave out its --pin";
        Type element = graph::tensorType(function.getArgument(i)).getElementType();
        if (role.getValue() == "parameter" && !element.isF32() && !element.isF64())
          return function.emitError("--sync ") << mode << " averages parameters of 32 and 64 bits, but " << name << " has the type "
                                               << element << ": export the model in f32";
      } else if (auto input = function.getArgAttrOfType<StringAttr>(i, graph::names::input)) {
        shares |= split;
        if (split && function.getArgAttr(i, graph::names::unpadded))
          return function.emitError("--sync ")
                 << mode << ": the rows of input " << input << " do not divide among the " << mesh.axes[*replicas].size
                 << " replicas: take another batch (--dim) or another number of replicas";
      }
    }
    if (!shares)
      return function.emitError("--sync ") << mode << ": the plan splits no input over the axis '" << replicaAxis
                                           << "', so that all replicas would do the same: take a batch that they divide (--dim), or another number of replicas";
    return success();
  }

  /// Whether a value is the replica's rows of an input.
  bool isInput(Value value) {
    auto argument = dyn_cast<BlockArgument>(value);
    return argument && function.getArgAttr(argument.getArgNumber(), graph::names::input);
  }

  LogicalResult separate(Operation &op) {
    auto axes = op.getAttrOfType<ArrayAttr>("axes");
    if (!isa<DistDialect>(op.getDialect()) || !axes)
      return success();
    SmallVector<StringRef> others;
    for (auto axis : axes.getAsRange<StringAttr>())
      if (axis.getValue() != replicaAxis)
        others.push_back(axis.getValue());
    if (others.size() == axes.size())
      return success();
    OpBuilder builder(&op);
    graph::GraphBuilder b(builder, op.getLoc());
    if (auto gather = dyn_cast<AllGatherOp>(op); gather && others.empty() && isInput(gather.getInput())) {
      SmallVector<Value> copies(mesh.axes[*replicas].size, gather.getInput());
      gather.getResult().replaceAllUsesWith(b.concat(copies, gather.getDim()));
      op.erase();
      return success();
    }
    auto reduce = dyn_cast<AllReduceOp>(op);
    if (!reduce)
      return graph::readerOf(&op) // the collective has the producer's name
                 ->emitError("--sync ")
             << mode << " keeps replicas apart, but the model, or a --pin, needs the whole batch at once here: take --sync "
             << "all-reduce";
    SmallVector<Value> values(reduce.getInputs());
    if (!others.empty())
      values = AllReduceOp::create(builder, op.getLoc(), reduce.getResultTypes(), values, reduce.getKind(),
                                   builder.getStrArrayAttr(others))
                   .getResults();
    for (auto [value, result] : llvm::zip(values, reduce.getResults()))
      result.replaceAllUsesWith(
          reduce.getKind() == ReductionKind::sum ? b.scale(value, mesh.axes[*replicas].size) : value);
    op.erase();
    return success();
  }

  func::FuncOp function;
  StringRef mode;
  Mesh mesh;
  std::optional<int> replicas;
};

struct SeparateReplicasPass : impl::SeparateReplicasPassBase<SeparateReplicasPass> {
  void runOnOperation() final {
    auto sync = Sync::of(getOperation());
    if (failed(sync))
      return signalPassFailure();
    auto train = getOperation().lookupSymbol<func::FuncOp>("train");
    if (!sync->isApart() || !train)
      return;
    if (!train->hasAttr(dist::names::partitioned)) {
      train.emitError("--sync ") << Sync::nameOf(sync->mode) << " is for several devices";
      return signalPassFailure();
    }
    if (failed(Separation(train, Sync::nameOf(sync->mode)).run()))
      signalPassFailure();
  }
};
} // namespace
} // namespace divisi::partitioning
