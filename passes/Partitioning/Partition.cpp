#include "dialects/Dist/FactorAxes.h"
#include "dialects/Dist/MessageDims.h"
#include "dialects/Dist/Plan.h"
#include "dialects/Dist/Reshard.h"
#include "dialects/Dist/StageAxes.h"
#include "dialects/Dist/Tasks.h"
#include "dialects/Graph/GraphBuilder.h"
#include "passes/Partitioning/Passes.h"

#include "llvm/ADT/SmallSet.h"

using namespace mlir;

namespace divisi::partitioning {
#define GEN_PASS_DEF_PARTITIONPASS
#include "passes/Partitioning/Passes.h.inc"

using namespace dist;
using graph::tensorType;

namespace {

/// This device's indices along mesh axes. They are scalar arguments of the function, added at their first use.
class PieceIndices {
public:
  PieceIndices(func::FuncOp function, const Mesh &mesh) : function(function), mesh(mesh), arguments(mesh.axes.size()) {}

  Value index(graph::GraphBuilder &b, AxesRef axes) {
    Value number;
    for (int axis : axes) {
      Value here = argument(axis);
      number = number ? b.add(b.scale(number, mesh.axes[axis].size), here) : here;
    }
    return number;
  }

private:
  Value argument(int axis) {
    if (!arguments[axis]) {
      Builder builder(function);
      auto type = RankedTensorType::get({}, builder.getI64Type());
      NamedAttribute name =
          builder.getNamedAttr(graph::names::scalar, builder.getStringAttr("axis_index." + mesh.axes[axis].name));
      unsigned last = function.getNumArguments();
      if (failed(function.insertArgument(last, type, builder.getDictionaryAttr(name), function.getLoc())))
        llvm::report_fatal_error("an argument cannot be added");
      arguments[axis] = function.getArgument(last);
    }
    return arguments[axis];
  }

  func::FuncOp function;
  const Mesh &mesh;
  SmallVector<Value> arguments;
};

/// An operation's sharding and global shapes, which are lost when its types become local.
struct Before {
  Operation *op;
  ShardingRule rule;
  FactorAxes factors;
  SmallVector<SmallVector<int64_t>> shapes; // of the results
};

class Local final : public LocalContext {
public:
  Local(OpBuilder &ops, const Mesh &grid, PieceIndices &indices, const Before &before)
      : ops(ops), grid(grid), indices(indices), before(before) {}
  OpBuilder &builder() override { return ops; }
  const Mesh &mesh() const override { return grid; }
  ArrayRef<Axes> factorAxes() const override { return before.factors; }
  int factorOf(StringRef name) const override { return before.rule.indexOf(name); }
  Value pieceIndex(AxesRef axes) override {
    graph::GraphBuilder b(ops, before.op->getLoc());
    return indices.index(b, axes);
  }
  ArrayRef<int64_t> globalShape(unsigned result) const override { return before.shapes[result]; }

private:
  OpBuilder &ops;
  const Mesh &grid;
  PieceIndices &indices;
  const Before &before;
};

class Partitioner {
public:
  explicit Partitioner(func::FuncOp function)
      : function(function), mesh(toMesh(function->getAttrOfType<MeshAttr>(dist::names::mesh))),
        stageAxes(StageAxes::of(function)), indices(function, mesh), builder(function) {
    builder.setListener(&stages);
  }

  void run() {
    Block &block = function.getBody().front();
    for (BlockArgument argument : block.getArguments())
      if (shardOf(argument.getType()))
        function.setArgAttr(argument.getArgNumber(), dist::names::global, TypeAttr::get(argument.getType()));
    std::vector<Before> before;
    SmallVector<ReshardOp> reshards;
    for (Operation &op : block.without_terminator()) {
      if (auto reshard = dyn_cast<ReshardOp>(op))
        reshards.push_back(reshard);
      else
        before.push_back(remember(cast<ShardingRuleInterface>(op)));
    }
    function->setAttr(dist::names::partitioned, function->getAttr(dist::names::mesh));
    function->removeAttr(dist::names::mesh);
    std::vector<std::pair<Sharding, Sharding>> changes;
    for (ReshardOp reshard : reshards)
      changes.push_back(
          {toSharding(tensorType(reshard.getInput()), mesh), toSharding(tensorType(reshard.getResult()), mesh)});
    for (Value argument : block.getArguments())
      makeLocal(argument);
    for (Operation &op : block)
      for (Value result : op.getResults())
        makeLocal(result);
    for (auto [reshard, change] : llvm::zip(reshards, changes))
      communicate(reshard, change.first, change.second);
    for (const Before &entry : before)
      adapt(entry);
    auto types = block.getTerminator()->getOperandTypes();
    function.setFunctionType(FunctionType::get(function.getContext(), block.getArgumentTypes(), types));
  }

private:
  void makeLocal(Value value) {
    auto local = localType(tensorType(value), mesh, [&] { return function.emitError(); }); // verified before
    value.setType(*local);
  }

  /// Derives the sharding of a verified operation's factors from its types.
  Before remember(ShardingRuleInterface op) {
    ShardingRule rule = op.getShardingRule();
    Before before{op, rule, FactorAxes(rule.factors.size()), {}};
    auto look = [&](Value value, const ShardingRule::Dims &dims) {
      FactorAxes mine = factorsOf(mesh, rule, dims, toSharding(tensorType(value), mesh));
      for (auto [factor, axes] : llvm::zip(before.factors, mine))
        if (!axes.empty())
          factor = axes;
    };
    for (auto [value, dims] : llvm::zip(op->getOperands(), rule.operands))
      look(value, dims);
    for (auto [value, dims] : llvm::zip(op->getResults(), rule.results)) {
      look(value, dims);
      before.shapes.emplace_back(graph::shapeOf(value));
    }
    return before;
  }

  void adapt(const Before &before) {
    builder.setInsertionPoint(before.op);
    Local local(builder, mesh, indices, before);
    stages.follow(before.op);
    Value replacement = cast<ShardingRuleInterface>(before.op).makeLocal(local);
    if (replacement) {
      before.op->getResult(0).replaceAllUsesWith(replacement);
      before.op->erase();
    }
  }

  RankedTensorType scaled(RankedTensorType type, int dim, int64_t times, int64_t by) {
    SmallVector<int64_t> shape(type.getShape());
    shape[dim] = shape[dim] * times / by;
    return RankedTensorType::get(shape, type.getElementType());
  }

  /// A value with its sharding, and the stage that has it; -1: no stage.
  struct Source {
    Value value;
    Sharding sharding;
    int64_t stage = -1;
  };
  Source sourceOf(ReshardOp reshard, const Sharding &from) {
    Value input = reshard.getInput();
    if (auto crossing = crossings.find(input); crossing != crossings.end())
      return crossing->second.source;
    auto argument = dyn_cast<BlockArgument>(input);
    auto stage = argument ? function.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), dist::names::stage)
                          : input.getDefiningOp()->getAttrOfType<IntegerAttr>(dist::names::stage);
    return {input, from, stage ? stage.getInt() : -1};
  }

  /// The stage that changes the sharding of a value from `stage` for these uses: the first that receives it, or -1.
  int64_t stageFor(ArrayRef<OpOperand *> uses, int64_t stage) {
    int64_t least = -1, most = -1;
    for (OpOperand *use : uses)
      if (auto user = stageOf(*use)) {
        least = least < 0 ? user.getInt() : std::min(least, user.getInt());
        most = std::max(most, user.getInt());
      }
    int64_t to = least >= stage ? least : most;
    return to >= 0 ? to : stage;
  }

  /// The stage of a use. A function's result has the stage of the state that it renews.
  IntegerAttr stageOf(OpOperand &use) {
    if (!use.getOwner()->hasTrait<OpTrait::IsTerminator>())
      return use.getOwner()->getAttrOfType<IntegerAttr>(dist::names::stage);
    auto renews = function.getResultAttrOfType<StringAttr>(use.getOperandNumber(), graph::names::renews);
    for (unsigned i = 0; renews && i < function.getNumArguments(); ++i)
      if (auto state = function.getArgAttrOfType<DictionaryAttr>(i, graph::names::state);
          state && state.getAs<StringAttr>("name") == renews)
        return function.getArgAttrOfType<IntegerAttr>(i, dist::names::stage);
    return {};
  }

  /// Replaces a reshard by collectives of the stage that has its value or receives it. To stages that have other axes a
  /// message brings the shards that they need.
  void communicate(ReshardOp reshard, const Sharding &from, const Sharding &to) {
    builder.setInsertionPoint(reshard);
    Source source = stageAxes.empty() ? Source{reshard.getInput(), from} : sourceOf(reshard, from);
    auto crossing = crossings.find(reshard.getInput());
    SmallVector<OpOperand *> near, far, reshards;
    std::map<int64_t, SmallVector<OpOperand *>> there; // uses on stages that have the input by a message
    for (OpOperand &use : reshard->getUses()) {
      auto stage = source.stage >= 0 ? stageOf(use) : IntegerAttr();
      if (isa<ReshardOp>(use.getOwner()))
        reshards.push_back(&use);
      else if (stage && crossing != crossings.end() && crossing->second.to.contains(stage.getInt()))
        there[stage.getInt()].push_back(&use);
      else if (stage && stageAxes.lacking(stage.getInt(), mesh) != stageAxes.lacking(source.stage, mesh))
        far.push_back(&use);
      else
        near.push_back(&use);
    }
    // What is resharded further comes from the stage that has it, if it is needed there.
    llvm::append_range(near.empty() && !far.empty() ? far : near, reshards);
    auto replace = [](ArrayRef<OpOperand *> uses, Value value) {
      for (OpOperand *use : uses)
        use->set(value);
    };
    for (auto &[stage, uses] : there)
      replace(uses, change(reshard, {reshard.getInput(), from}, to, stage));
    if (!near.empty() || (far.empty() && there.empty()))
      replace(near, change(reshard, source, to, stageAxes.empty() ? -1 : stageFor(near, source.stage)));
    if (!far.empty())
      replace(far, transfer(reshard, source, to, far));
    reshard.erase();
  }

  /// What stages with other axes receive of a value.
  Value transfer(ReshardOp reshard, const Source &source, const Sharding &to, ArrayRef<OpOperand *> uses) {
    auto shape = MessageDims::global(tensorType(source.value), source.sharding, mesh);
    Sharding sent = sentSharding(source.sharding, to, shape, mesh);
    Value value = change(reshard, source, sent, source.stage);
    if (sent.dims == to.dims)
      return value;
    auto op = TransferOp::create(builder, reshard.getLoc(), tensorType(reshard.getResult()), value,
                                 MessageDims{sent, to}.toAttr(mesh, builder.getContext()));
    Crossing &crossing = crossings[op] = {{value, sent, source.stage}, {}};
    for (OpOperand *use : uses)
      if (auto stage = stageOf(*use))
        crossing.to.insert(stage.getInt());
    return op;
  }

  /// Changes the sharding of a value, by operations of `stage` (-1: they get none).
  Value change(ReshardOp reshard, const Source &source, const Sharding &to, int64_t stage) {
    using Kind = ReshardStep::Kind;
    Value value = source.value;
    stages.stage = stage >= 0 ? builder.getI64IntegerAttr(stage) : Attribute();
    Location loc = reshard.getLoc();
    MLIRContext *context = builder.getContext();
    for (const ReshardStep &step : planReshard(source.sharding, to)) {
      auto type = tensorType(value);
      int64_t parts = mesh.parts(step.axes);
      ArrayAttr axes = axisNames(step.axes, mesh, context);
      auto kind = (ReductionKind)step.reduction;
      switch (step.kind) {
      case Kind::allReduce:
        value = AllReduceOp::create(builder, loc, TypeRange{type}, ValueRange{value}, kind, axes).getResult(0);
        break;
      case Kind::reduceScatter:
        value = ReduceScatterOp::create(builder, loc, scaled(type, step.dim, 1, parts), value, kind, step.dim, axes);
        break;
      case Kind::allGather:
        value = AllGatherOp::create(builder, loc, scaled(type, step.dim, parts, 1), value, step.dim, axes);
        if (Attribute use = reshard->getAttr(dist::names::use))
          value.getDefiningOp()->setAttr(dist::names::use, use);
        break;
      case Kind::allToAll:
        value = AllToAllOp::create(builder, loc, scaled(scaled(type, step.dim, parts, 1), step.to, 1, parts), value,
                                   step.dim, step.to, axes);
        break;
      case Kind::slice:
        value = ownPiece(value, step.dim, step.axes, loc);
        break;
      }
    }
    return value;
  }

  /// The device's shard of a dimension: the indices index * size + [0, size).
  Value ownPiece(Value value, int dim, AxesRef axes, Location loc) {
    graph::GraphBuilder b(builder, loc);
    int64_t size = tensorType(value).getDimSize(dim) / mesh.parts(axes);
    Value first = b.broadcast(b.scale(indices.index(b, axes), size), {size}, {});
    Value rows = b.add(b.iota({size}, 0), first);
    return b.gather(value, rows, dim);
  }

  func::FuncOp function;
  Mesh mesh;
  const StageAxes stageAxes;
  PieceIndices indices;
  OpBuilder builder;
  StageListener stages; // gives new operations a stage where the plan has stages
  struct Crossing {
    Source source;
    llvm::SmallSet<int64_t, 2> to; // stages that receive it
  };
  llvm::DenseMap<Value, Crossing> crossings; // by result of dist.transfer
};

struct PartitionPass : impl::PartitionPassBase<PartitionPass> {
  /// Checks that every operation of a planned function has a sharding rule and that all sizes are static.
  static LogicalResult check(func::FuncOp function) {
    if (function.isDeclaration())
      return function.emitError("is planned, but has no body");
    auto known = [](Type type) {
      auto tensor = dyn_cast<RankedTensorType>(type);
      return tensor && tensor.hasStaticShape();
    };
    if (!llvm::all_of(function.getArgumentTypes(), known))
      return function.emitError("takes something else than tensors of known sizes: it cannot be partitioned");
    for (Operation &op : function.getBody().front().without_terminator())
      if (!isa<ShardingRuleInterface, ReshardOp>(op) || !llvm::all_of(op.getResultTypes(), known))
        return op.emitError("'") << op.getName() << "' has no sharding rule: it cannot be partitioned";
    return success();
  }

  void runOnOperation() final {
    for (auto plan : llvm::make_early_inc_range(getOperation().getOps<PlanOp>()))
      plan.erase();
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (function->hasAttr(dist::names::mesh)) {
        if (failed(check(function)))
          return signalPassFailure();
        Partitioner(function).run();
      }
  }
};
} // namespace
} // namespace divisi::partitioning
