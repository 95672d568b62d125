#include "dialects/Graph/GraphBuilder.h"
#include "dialects/Graph/Nodes.h"
#include "passes/Partitioning/Passes.h"
#include "passes/Pipelining/Passes.h"
#include "passes/Pipelining/StepParts.h"
#include "passes/Planning/ApplyPlan.h"
#include "passes/Planning/ModulePlanner.h"
#include "passes/Planning/Strategy.h"

#include "llvm/ADT/StringSet.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;

namespace divisi::pipelining {
#define GEN_PASS_DEF_SPLITMICROBATCHESPASS
#include "passes/Pipelining/Passes.h.inc"

using graph::GraphBuilder;
using graph::shapeOf;
using graph::tensorType;

namespace {

/// The mesh axis of microbatches: the batch is split along it as over devices, but in time.
constexpr llvm::StringLiteral timeAxis = "microbatch";
const std::string indexName = ("axis_index." + timeAxis).str();

/// Gives an input of shape [B, ...] the shape [count, B / count, ...].
LogicalResult cutInput(BlockArgument argument, int64_t count, StringRef name) {
  auto type = tensorType(argument);
  auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  if (type.getDimSize(0) % count)
    return function.emitError("the batch of ")
           << type.getDimSize(0) << " of the input '" << name << "' does not divide into " << count << " microbatches";
  SmallVector<int64_t> shape = {count, type.getDimSize(0) / count};
  llvm::append_range(shape, type.getShape().drop_front());
  OpBuilder builder(argument.getOwner(), argument.getOwner()->begin());
  argument.setType(RankedTensorType::get(shape, type.getElementType()));
  auto whole = graph::ReshapeOp::create(builder, argument.getLoc(), type, argument);
  argument.replaceAllUsesExcept(whole, whole);
  function.setArgAttr(argument.getArgNumber(), graph::names::microbatches, builder.getI64IntegerAttr(count));
  return success();
}

bool isSplit(Value value) { return (bool)dist::shardOf(value.getType()); }

/// Computes a sum over all microbatches from the whole batch.
class WholeBatch {
public:
  WholeBatch(func::FuncOp function, dist::ReshardOp sum) : function(function), builder(sum) {}

  /// The value for the whole batch; null if it depends on the model: on state other than numbers and constant vectors, such as the
  /// weights of classes.
  Value compute(Value value) {
    if (!isSplit(value))
      return value;
    if (Value known = mapping.lookupOrNull(value))
      return known;
    Value whole;
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      if (function.getArgAttr(argument.getArgNumber(), graph::names::microbatches))
        whole = dist::ReshardOp::create(builder, value.getLoc(), plain(value), value);
    } else if (auto reshard = value.getDefiningOp<dist::ReshardOp>()) {
      whole = compute(reshard.getInput());
    } else {
      whole = clone(value.getDefiningOp(), cast<OpResult>(value).getResultNumber());
    }
    if (whole)
      mapping.map(value, whole);
    return whole;
  }

private:
  static RankedTensorType plain(Value value) {
    return RankedTensorType::get(shapeOf(value), tensorType(value).getElementType());
  }

  bool isOfModel(BlockArgument argument) {
    auto state = function.getArgAttrOfType<DictionaryAttr>(argument.getArgNumber(), graph::names::state);
    if (!state || shapeOf(argument).empty())
      return false;
    auto trains = state.getAs<BoolAttr>("trainable");
    return shapeOf(argument).size() > 1 || !trains || trains.getValue();
  }

  Value clone(Operation *op, unsigned result) {
    SmallVector<Value> operands;
    for (Value operand : op->getOperands()) {
      auto argument = dyn_cast<BlockArgument>(operand);
      Value whole = argument && isOfModel(argument) ? Value() : compute(operand);
      if (!whole)
        return {};
      operands.push_back(whole);
    }
    Operation *copy = builder.clone(*op);
    copy->setOperands(operands);
    for (Value value : copy->getResults())
      value.setType(plain(value));
    if (auto constant = dyn_cast<graph::ConstantOp>(copy))
      if (auto splat = dyn_cast<SplatElementsAttr>(constant.getValue()))
        constant.setValueAttr(splat.resizeSplat(plain(constant.getResult())));
    return copy->getResult(result);
  }

  func::FuncOp function;
  OpBuilder builder;
  IRMapping mapping;
};

struct SplitMicrobatchesPass : impl::SplitMicrobatchesPassBase<SplitMicrobatchesPass> {
  using SplitMicrobatchesPassBase::SplitMicrobatchesPassBase;

  void runOnOperation() final {
    if (asynchronous || whole) {
      for (auto function : getOperation().getOps<func::FuncOp>()) {
        if (whole && function.getName() == "train" && function.getOps<graph::AccumulateOp>().empty()) {
          function.emitError("a step that works on the whole batch needs to know where its backward pass ends: compile "
                             "from the model on, or write the dump again");
          return signalPassFailure();
        }
        keepWhole(function);
      }
      return;
    }
    if (count == 1)
      return;
    unmarkGradients(getOperation());
    if (failed(plan()))
      return signalPassFailure();
    for (auto function : getOperation().getOps<func::FuncOp>())
      sumEarly(function);
    OpPassManager partition(ModuleOp::getOperationName());
    partition.addPass(partitioning::createPartitionPass());
    if (failed(runPipeline(partition, getOperation())))
      return signalPassFailure();
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (failed(finish(function)))
        return signalPassFailure();
  }

private:
  /// One microbatch. Of an asynchronous step, its tasks run in several steps; otherwise the inputs are read with its
  /// index, and what it leaves for the end of the step is marked as a sum, like the gradients.
  void keepWhole(func::FuncOp function) {
    OpBuilder builder(function);
    function->setAttr(graph::names::microbatches, builder.getI64IntegerAttr(1));
    Value index = indexOf(function);
    if (asynchronous) {
      function->setAttr(asynchronousStep, builder.getUnitAttr());
      return;
    }
    Block &block = function.getBody().front();
    llvm::DenseSet<Value> timed; // what depends on the inputs, up to its sum
    int64_t batch = 0;
    for (BlockArgument argument : block.getArguments()) {
      auto type = tensorType(argument);
      if (!function.getArgAttr(argument.getArgNumber(), graph::names::input) || type.getRank() == 0)
        continue;
      batch = batch ? batch : type.getDimSize(0);
      if (type.getDimSize(0) != batch)
        continue;
      SmallVector<int64_t> shape = {1};
      llvm::append_range(shape, type.getShape());
      builder.setInsertionPointToStart(&block);
      GraphBuilder b(builder, argument.getLoc());
      argument.setType(RankedTensorType::get(shape, type.getElementType()));
      Value part = b.gather(argument, b.reshape(index, {1}), 0), rows = b.reshape(part, type.getShape());
      argument.replaceUsesWithIf(rows, [&](OpOperand &use) { return use.getOwner() != part.getDefiningOp(); });
      function.setArgAttr(argument.getArgNumber(), graph::names::microbatches, builder.getI64IntegerAttr(1));
      timed.insert(rows);
    }
    for (Operation &op : block.without_terminator())
      if (!isa<graph::AccumulateOp>(op) && llvm::any_of(op.getOperands(), [&](Value x) { return timed.contains(x); }))
        timed.insert(op.result_begin(), op.result_end());
    for (OpOperand &result : block.getTerminator()->getOpOperands())
      if (timed.contains(result.get())) {
        builder.setInsertionPoint(block.getTerminator());
        GraphBuilder b(builder, result.get().getLoc());
        result.set(b.op<graph::AccumulateOp>(result.get()));
      }
    function.setFunctionType(
        FunctionType::get(&getContext(), block.getArgumentTypes(), block.getTerminator()->getOperandTypes()));
  }

  /// Plans the split of the inputs' batch along the axis of microbatches.
  LogicalResult plan() {
    planning::separateScalars(getOperation()); // a constant that readers share would have to lie one way for all of them
    auto problem = planning::ModuleProblem::build(getOperation());
    if (failed(problem))
      return failure();
    llvm::DenseSet<int> batched;
    for (auto [tensor, dim] : problem->problem.batchDims)
      if (problem->problem.tensors[tensor].named() && dim == 0)
        batched.insert(tensor);
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      for (BlockArgument argument : function.getArguments())
        if (int tensor = problem->tensorOf.lookup(argument); batched.contains(tensor))
          if (failed(cutInput(argument, count, problem->problem.tensors[tensor].name)))
            return failure();
      function.setFunctionType(
          FunctionType::get(&getContext(), function.getBody().getArgumentTypes(), function.getResultTypes()));
    }
    problem = planning::ModuleProblem::build(getOperation());
    if (failed(problem))
      return failure();
    problem->problem.batchDims.clear();
    for (auto function : getOperation().getOps<func::FuncOp>())
      for (BlockArgument argument : function.getArguments())
        if (function.getArgAttr(argument.getArgNumber(), graph::names::microbatches))
          problem->problem.batchDims.push_back({problem->tensorOf.lookup(argument), 0});
    planning::StrategyOptions options;
    llvm::StringSet<> cut;
    for (auto [tensor, dim] : problem->problem.batchDims)
      cut.insert(problem->problem.tensors[tensor].name);
    for (const auto &tensor : problem->problem.tensors) // what was not cut is whole in every microbatch, whatever its shape
      if (tensor.named() && !cut.contains(tensor.name))
        options.pins.push_back({tensor.name, std::vector<std::vector<std::string>>(tensor.shape.size())});
    dist::Mesh mesh;
    mesh.axes.push_back({"data", count});
    auto plan = planning::planIfAny(problem->problem, mesh, options);
    if (!plan || problem->problem.batchDims.empty())
      return getOperation().emitError("the batch cannot be split into ") << (int64_t)count << " microbatches";
    mesh.axes[0].name = timeAxis.str();
    planning::applyPlan(getOperation(), *problem, *plan, mesh);
    return success();
  }

  /// Sums that the microbatches themselves read (the number of labels by which a mean loss is divided) are computed
  /// from the whole batch.
  static void sumEarly(func::FuncOp function) {
    SmallVector<dist::ReshardOp> sums;
    llvm::DenseSet<Operation *> timed; // those whose results differ by microbatch, and what they depend on
    for (Operation &op : llvm::reverse(function.getBody().front().without_terminator())) {
      auto reshard = dyn_cast<dist::ReshardOp>(op);
      bool leads = llvm::any_of(op.getUsers(), [&](Operation *user) { return timed.contains(user); });
      if (reshard && isSplit(reshard.getInput()) && !isSplit(reshard.getResult())) {
        if (leads)
          sums.push_back(reshard);
        continue;
      }
      if (leads || llvm::any_of(op.getResults(), isSplit))
        timed.insert(&op);
    }
    for (dist::ReshardOp sum : llvm::reverse(sums))
      if (Value whole = WholeBatch(function, sum).compute(sum.getInput()))
        sum.getResult().replaceAllUsesWith(whole);
    for (dist::ReshardOp sum : sums)
      if (sum->use_empty())
        sum.erase();
  }

  /// Replaces collectives along the axis of microbatches by sums and slices.
  LogicalResult finish(func::FuncOp function) {
    OpBuilder builder(function);
    function->removeAttr(dist::names::partitioned);
    function->setAttr(graph::names::microbatches, builder.getI64IntegerAttr(count));
    Value index = indexOf(function);
    Block &block = function.getBody().front();
    SmallVector<Operation *> operations;
    for (Operation &op : block)
      operations.push_back(&op);
    for (BlockArgument argument : block.getArguments()) {
      unsigned i = argument.getArgNumber();
      auto global = function.getArgAttrOfType<TypeAttr>(i, dist::names::global);
      function.removeArgAttr(i, dist::names::global);
      if (!global)
        continue;
      auto local = tensorType(argument);
      SmallVector<int64_t> shape(local.getShape());
      shape[0] = count;
      argument.setType(RankedTensorType::get(shape, local.getElementType()));
      builder.setInsertionPointToStart(&block);
      GraphBuilder b(builder, argument.getLoc());
      Value part = b.gather(argument, b.reshape(index, {1}), 0);
      argument.replaceUsesWithIf(part, [&](OpOperand &use) {
        return use.getOwner() != part.getDefiningOp() && !isa<dist::AllGatherOp>(use.getOwner());
      });
    }
    for (Operation *op : operations)
      if (failed(replace(op, index, builder)))
        return failure();
    function.setFunctionType(
        FunctionType::get(&getContext(), block.getArgumentTypes(), block.getTerminator()->getOperandTypes()));
    return success();
  }

  static Value indexOf(func::FuncOp function) {
    Builder builder(function);
    StringAttr name = builder.getStringAttr(timeAxis);
    for (BlockArgument argument : function.getArguments())
      if (auto scalar = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), graph::names::scalar);
          scalar && scalar.getValue() == indexName) {
        function.setArgAttr(argument.getArgNumber(), graph::names::scalar, name);
        return argument;
      }
    unsigned last = function.getNumArguments();
    auto type = RankedTensorType::get({}, builder.getI64Type());
    (void)function.insertArgument(
        last, type, builder.getDictionaryAttr(builder.getNamedAttr(graph::names::scalar, name)), function.getLoc());
    return function.getArgument(last);
  }

  /// Accumulates `input` over the microbatches and replaces `result` by it. Sums of 16-bit values are accumulated in
  /// f32.
  static void accumulate(Value input, Value result, dist::ReductionKind kind, OpBuilder &builder) {
    GraphBuilder b(builder, input.getLoc());
    Type type = tensorType(input).getElementType();
    if (kind != dist::ReductionKind::sum) {
      auto combine = kind == dist::ReductionKind::max ? graph::Combine::max : graph::Combine::min;
      Value combined = b.op<graph::AccumulateOp>(input);
      combined.getDefiningOp()->setAttr("combine", graph::CombineAttr::get(builder.getContext(), combine));
      return result.replaceAllUsesWith(combined);
    }
    if (!type.isBF16() && !type.isF16())
      return result.replaceAllUsesWith(b.op<graph::AccumulateOp>(input));
    Value sum = b.op<graph::AccumulateOp>(b.cast(input, builder.getF32Type()));
    for (Operation *user : result.getUsers())
      if (auto cast = dyn_cast<graph::CastOp>(user); cast && tensorType(cast.getResult()).getElementType().isF32())
        cast.getResult().replaceAllUsesWith(sum);
    result.replaceAllUsesWith(b.cast(sum, type));
  }

  /// Whether a value is used as what a function reports: an output of an evaluation.
  static bool isReported(OpOperand &use) {
    auto function = cast<func::FuncOp>(use.getOwner()->getParentOp());
    return use.getOwner()->hasTrait<OpTrait::IsTerminator>() && function.getResultAttr(use.getOperandNumber(), graph::names::result);
  }

  /// Puts the shards of a result of the whole batch in their places, one in each microbatch: the sum of the microbatches
  /// has all.
  void collect(dist::AllGatherOp gather, Value index, OpBuilder &builder) const {
    GraphBuilder b(builder, gather.getLoc());
    Value shard = gather.getInput();
    Type element = tensorType(shard).getElementType(), wide = element;
    if (element.isInteger(1)) // truth values are not added
      wide = builder.getIntegerType(8);
    else if (element.isF16())
      wide = builder.getF32Type();
    int64_t dim = gather.getDim(), size = shapeOf(shard)[dim];
    ArrayRef<int64_t> whole = shapeOf(gather.getResult());
    SmallVector<Value> copies(count, b.cast(shard, wide));
    Value places = b.iota(whole, dim, builder.getI64Type()), first = b.broadcast(b.scale(index, size), whole, {});
    Value offset = b.sub(places, first);
    Value mine = b.isWithin(offset, 0, size);
    Value placed = b.concat(copies, dim);
    placed = b.select(mine, placed, b.splatLike(placed, 0));
    gather.getResult().replaceAllUsesWith(b.cast(b.op<graph::AccumulateOp>(placed), element));
    gather.erase();
  }

  LogicalResult replace(Operation *op, Value index, OpBuilder &builder) const {
    builder.setInsertionPoint(op);
    if (auto reduce = dyn_cast<dist::AllReduceOp>(op)) {
      for (auto [input, result] : llvm::zip(reduce.getInputs(), reduce.getResults()))
        accumulate(input, result, reduce.getKind(), builder);
      op->erase();
      return success();
    }
    if (auto gather = dyn_cast<dist::AllGatherOp>(op); gather && isa<BlockArgument>(gather.getInput())) {
      gather.getResult().replaceAllUsesWith(gather.getInput());
      op->erase();
      return success();
    }
    if (auto gather = dyn_cast<dist::AllGatherOp>(op);
        gather && llvm::all_of(op->getUses(), isReported)) {
      collect(gather, index, builder);
      return success();
    }
    if (op->getDialect() && isa<dist::DistDialect>(op->getDialect()))
      return graph::readerOf(op) // the collective has the producer's name
          ->emitError("needs the whole batch at once: ") << notInMicrobatches;
    return success();
  }
};
} // namespace
} // namespace divisi::pipelining
