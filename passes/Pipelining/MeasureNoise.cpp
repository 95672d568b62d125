#include "dialects/Dist/StageAxes.h"
#include "dialects/Dist/Sync.h"
#include "dialects/Graph/GraphBuilder.h"
#include "dialects/Graph/Nodes.h"
#include "dialects/Graph/WhenNeeded.h"
#include "passes/Pipelining/Passes.h"
#include "passes/Pipelining/StepParts.h"

using namespace mlir;

namespace divisi::pipelining {
#define GEN_PASS_DEF_MEASURENOISEPASS
#include "passes/Pipelining/Passes.h.inc"

using graph::GraphBuilder;
using namespace dist;

namespace {

/// Derives from the square of the batch's gradient that of each share's.
class Measurement {
public:
  explicit Measurement(func::FuncOp function) : function(function), builder(function.getContext()) {
    if (auto attr = function->getAttrOfType<MeshAttr>(dist::names::partitioned)) {
      Mesh mesh = toMesh(attr);
      if (auto data = mesh.find(replicaAxis))
        shares = mesh.axes[*data].size;
    }
    ofReplicas = shares > 1;
    if (auto count = function->getAttrOfType<IntegerAttr>(graph::names::microbatches); count && !ofReplicas)
      shares = count.getInt();
  }

  LogicalResult run(unsigned big) {
    if (shares < 2)
      return function.emitError("--log-noise-scale compares the gradients of parts of the batch with that of the whole batch, and here "
                                "there is one part: take replicas (--mesh data=N, --strategy data) or --microbatches N");
    findDependent();
    auto report = function.getResultAttrOfType<DictionaryAttr>(big, graph::names::result);
    Operation *end = function.getBody().front().getTerminator();
    auto sum = total(end->getOperand(big));
    if (failed(sum))
      return failure();
    builder.setInsertionPoint(end);
    GraphBuilder b(builder, sum->getLoc());
    Value total = ofReplicas ? allReduce(*sum, builder.getStrArrayAttr(replicaAxis)) : *sum;
    Value mean = b.scale(total, 1.0 / static_cast<double>(shares));
    NamedAttrList small(report);
    small.set("kind", builder.getStringAttr(graph::gradSquareSmall));
    small.set("shares", builder.getI64IntegerAttr(shares));
    NamedAttribute attribute = builder.getNamedAttr(graph::names::result, small.getDictionary(builder.getContext()));
    end->insertOperands(end->getNumOperands(), mean);
    return function.insertResult(function.getNumResults(), mean.getType(), builder.getDictionaryAttr(attribute));
  }

private:
  /// Finds the operations that depend on the batch, and those that depend on the number of the replica.
  void findDependent() {
    for (Operation &op : function.getBody().front().without_terminator()) {
      if (llvm::any_of(op.getOperands(), [&](Value operand) { return dependsOnBatch(operand); }))
        batched.insert(&op);
      if (llvm::any_of(op.getOperands(), [&](Value operand) { return dependsOnReplica(operand); }))
        numbered.insert(&op);
    }
  }
  bool dependsOnBatch(Value value) {
    if (auto argument = dyn_cast<BlockArgument>(value))
      return (bool)function.getArgAttr(argument.getArgNumber(), graph::names::input);
    return batched.contains(value.getDefiningOp());
  }
  bool dependsOnReplica(Value value) {
    if (auto argument = dyn_cast<BlockArgument>(value))
      return isScalar(argument, ("axis_index." + replicaAxis).str());
    return numbered.contains(value.getDefiningOp());
  }

  /// The axes of a collective without that of the replicas; null if it does not cross that one.
  ArrayAttr withoutReplicas(Operation *op) {
    SmallVector<Attribute> others;
    auto axes = op->getAttrOfType<ArrayAttr>("axes");
    for (Attribute axis : axes)
      if (cast<StringAttr>(axis).getValue() != replicaAxis)
        others.push_back(axis);
    return others.size() == axes.size() ? ArrayAttr() : builder.getArrayAttr(others);
  }

  Value allReduce(Value value, ArrayAttr axes) {
    if (axes.empty())
      return value;
    return AllReduceOp::create(builder, value.getLoc(), TypeRange{value.getType()}, ValueRange{value}, ReductionKind::sum, axes)
        .getResult(0);
  }

  Value clone(Operation *op, ArrayRef<Value> operands) {
    builder.setInsertionPointAfter(op);
    Operation *copy = builder.clone(*op);
    copy->setOperands(operands);
    return copy->getResult(0);
  }

  LogicalResult refuse(Operation *op) {
    return op->emitError("--log-noise-scale needs the gradient of each share of the batch, and here one is made from the whole batch at "
                         "once: take --strategy data with at most --zero 2 on a number of devices that divides the batch, and leave out "
                         "--pin");
  }

  /// What a value is where it is no result of an operation.
  LogicalResult refuseArgument() {
    return function.emitError("--log-noise-scale: the report '") << graph::gradSquareBig << "' is not made of gradients";
  }

  /// Of the sum of the squares of gradients: that of the share. With replicas it is this rank's, else the sum over all
  /// shares.
  FailureOr<Value> total(Value value) {
    if (Value known = totals.lookup(value))
      return known;
    auto result = makeTotal(value);
    if (succeeded(result))
      totals[value] = *result;
    return result;
  }
  FailureOr<Value> makeTotal(Value value) {
    Operation *op = value.getDefiningOp();
    if (auto add = dyn_cast_if_present<graph::AddOp>(op)) {
      auto x = total(add.getLhs());
      auto y = succeeded(x) ? total(add.getRhs()) : x; // one error is enough
      if (failed(y))
        return failure();
      return clone(op, {*x, *y});
    }
    if (auto reduce = dyn_cast_if_present<AllReduceOp>(op); reduce && reduce.getKind() == ReductionKind::sum) {
      auto x = total(reduce.getInputs()[cast<OpResult>(value).getResultNumber()]);
      if (failed(x))
        return failure();
      builder.setInsertionPointAfter(op);
      ArrayAttr others = withoutReplicas(op); // what is sharded over replicas is whole in the share's gradient
      return allReduce(*x, others ? others : reduce.getAxes());
    }
    auto x = square(value);
    if (failed(x) || ofReplicas)
      return x;
    return GraphBuilder(builder, value.getLoc()).op<graph::AccumulateOp>(*x);
  }

  /// Of the square of one gradient: that of the share, over the same shards except those over replicas.
  FailureOr<Value> square(Value value) {
    Operation *op = value.getDefiningOp();
    if (auto mul = dyn_cast_if_present<graph::MulOp>(op); mul && mul.getLhs() == mul.getRhs()) {
      auto x = gradient(mul.getLhs());
      if (failed(x))
        return failure();
      Value result = clone(op, {*x, *x});
      result.setType(x->getType());
      return result;
    }
    if (auto select = dyn_cast_if_present<graph::SelectOp>(op)) { // the elements of padding are zeros
      auto x = square(select.getOperand(1));
      if (failed(x))
        return failure();
      if (x->getType() != value.getType() || dependsOnBatch(select.getOperand(0)) || dependsOnBatch(select.getOperand(2)))
        return refuse(op);
      return clone(op, {select.getOperand(0), *x, select.getOperand(2)});
    }
    if (!isa_and_present<graph::ReduceSumOp>(op))
      return op ? refuse(op) : refuseArgument();
    auto x = square(op->getOperand(0));
    if (failed(x))
      return failure();
    return clone(op, {*x});
  }

  /// Whether the result of an operation is linear in those operands that depend on the batch.
  bool isLinear(Operation *op) {
    if (isa<graph::MulOp>(op))
      return !dependsOnBatch(op->getOperand(0)) || !dependsOnBatch(op->getOperand(1));
    if (isa<graph::DivOp>(op))
      return !dependsOnBatch(op->getOperand(1));
    if (isa<graph::SelectOp>(op))
      return !dependsOnBatch(op->getOperand(0));
    if (isa<graph::GatherOp, graph::ScatterAddOp>(op)) // of another shard on each replica, the rest would be lost
      return !dependsOnBatch(op->getOperand(1)) && !dependsOnReplica(op->getOperand(1));
    return isa<graph::AddOp, graph::SubOp, graph::NegOp, graph::CastOp, graph::ReshapeOp, graph::TransposeOp, graph::BroadcastOp,
               graph::ConcatOp, graph::SliceOp, graph::PadOp, graph::ReduceSumOp, graph::AccumulateOp, AllReduceOp, AllGatherOp>(op);
  }

  /// Of a gradient: that of the share, as if all others had the same samples. What the gradient does not have of the batch
  /// (a penalty on weights) is the same for each. A gradient that is scattered over replicas is whole.
  FailureOr<Value> gradient(Value value) {
    if (!dependsOnBatch(value))
      return value;
    Operation *op = value.getDefiningOp();
    if (!op)
      return refuseArgument();
    if (Value known = gradients.lookup(value))
      return known;
    auto result = makeGradient(op, value);
    if (succeeded(result))
      gradients[value] = *result;
    return result;
  }

  /// The comparison by which an operation keeps a gradient where the one that it is computed from is not 0, as the gradients
  /// of log, sqrt and others do; null if it does something else.
  static graph::CompareOp keepsWhereItFlows(Operation *op) {
    auto select = dyn_cast<graph::SelectOp>(op);
    auto compare = select ? select.getCondition().getDefiningOp<graph::CompareOp>() : graph::CompareOp();
    auto number = compare ? graph::splatOf(compare.getRhs()) : std::nullopt;
    return compare && compare.getPredicate() == graph::Predicate::ne && number && *number == 0 ? compare : nullptr;
  }

  FailureOr<Value> makeGradient(Operation *op, Value value) {
    auto times = [&](Value part) { return GraphBuilder(builder, part.getLoc()).scale(part, static_cast<double>(shares)); };
    builder.setInsertionPointAfter(op);
    if (graph::CompareOp compare = keepsWhereItFlows(op)) {
      auto from = gradient(compare.getLhs()), x = gradient(op->getOperand(1));
      if (failed(from) || failed(x))
        return failure();
      if (dependsOnBatch(op->getOperand(2)) || from->getType() != compare.getLhs().getType() || x->getType() != value.getType())
        return refuse(op);
      Value flows = clone(compare, {*from, compare.getRhs()});
      return clone(op, {flows, *x, op->getOperand(2)});
    }
    bool crosses = isa<AllReduceOp, ReduceScatterOp, AllGatherOp, AllToAllOp>(op);
    ArrayAttr others = crosses ? withoutReplicas(op) : ArrayAttr(); // null: not over replicas
    if (auto accumulate = dyn_cast<graph::AccumulateOp>(op); accumulate && !ofReplicas && !accumulate->hasAttr("combine"))
      return times(accumulate.getX());
    if (auto reduce = dyn_cast<AllReduceOp>(op); reduce && others && reduce.getKind() == ReductionKind::sum)
      return times(allReduce(reduce.getInputs()[cast<OpResult>(value).getResultNumber()], others));
    if (auto scatter = dyn_cast<ReduceScatterOp>(op);
        scatter && others && others.empty() && scatter.getKind() == ReductionKind::sum)
      return times(scatter.getInput());
    const bool gathers = isa<AllGatherOp>(op) && others && others.empty();
    if (op->getNumResults() != 1 || !isLinear(op) || (others && !gathers))
      return refuse(op);
    SmallVector<Value> operands;
    for (Value operand : op->getOperands()) {
      auto x = gradient(operand);
      if (failed(x))
        return failure();
      operands.push_back(*x);
    }
    Type type = op->getResult(0).getType();
    if (gathers) // of what was scattered
      return operands[0].getType() == type ? FailureOr<Value>(operands[0]) : FailureOr<Value>(refuse(op));
    if (TypeRange(ValueRange(operands)) == op->getOperandTypes())
      return clone(op, operands);
    if (!isa<graph::CastOp>(op))
      return refuse(op);
    builder.setInsertionPointAfter(op);
    return GraphBuilder(builder, op->getLoc()).cast(operands[0], graph::tensorType(op->getResult(0)).getElementType());
  }

  func::FuncOp function;
  OpBuilder builder;
  int64_t shares = 1;
  bool ofReplicas; // else of microbatches
  llvm::DenseSet<Operation *> batched, numbered;
  llvm::DenseMap<Value, Value> gradients, totals;
};

struct MeasureNoisePass : impl::MeasureNoisePassBase<MeasureNoisePass> {
  void runOnOperation() final {
    auto train = getOperation().lookupSymbol<func::FuncOp>("train");
    auto big = train ? graph::findReport(train, graph::gradSquareBig) : std::nullopt;
    if (!big || graph::findReport(train, graph::gradSquareSmall))
      return;
    if (failed(check(train)) || failed(Measurement(train).run(*big)))
      signalPassFailure();
  }

private:
  LogicalResult check(func::FuncOp train) {
    auto sync = Sync::of(getOperation());
    if (failed(sync))
      return failure();
    if (sync->isApart())
      return train.emitError("--log-noise-scale needs the gradient of the whole batch, and with --sync ")
             << Sync::nameOf(sync->mode) << " each replica has that of its share alone: take --sync all-reduce";
    if (sync->servers > 0)
      return train.emitError("--log-noise-scale needs the squares of all workers' gradients, and the servers of --sync ")
             << Sync::nameOf(sync->mode) << " --servers N get their sums alone: take --servers colocated";
    if (isAsynchronous(train))
      return train.emitError("--log-noise-scale compares gradients of one state of the weights: take a --schedule that is not asynchronous");
    if (!StageAxes::of(train).empty())
      return train.emitError("--log-noise-scale needs the same replicas in every stage: leave out --stage-axes");
    return success();
  }
};
} // namespace
} // namespace divisi::pipelining
