#include "passes/Planning/ApplyPlan.h"

#include "dialects/Dist/Reshard.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::dist;
using namespace divisi::planning;

namespace {

class Writer {
public:
  Writer(func::FuncOp function, const ModuleProblem &problem, const Plan &plan, const Mesh &mesh)
      : function(function), problem(problem), plan(plan), mesh(mesh), builder(function) {}

  void run() {
    Block &block = function.getBody().front();
    for (BlockArgument argument : block.getArguments())
      setType(argument, plan.tensors[problem.tensorOf.lookup(argument)]);
    SmallVector<Operation *> operations;
    for (Operation &op : block.without_terminator())
      operations.push_back(&op);
    for (Operation *op : operations)
      if (!isSplat(op))
        write(op);
    writeReturn(block.getTerminator());
    auto types = block.getTerminator()->getOperandTypes();
    function.setFunctionType(FunctionType::get(function.getContext(), block.getArgumentTypes(), types));
    function->setAttr(dist::names::mesh, toAttr(mesh, function.getContext()));
  }

private:
  static RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }
  static bool isSplat(Operation *op) {
    auto constant = dyn_cast_or_null<graph::ConstantOp>(op);
    return constant && constant.getValue().isSplat();
  }
  static bool isZero(Value value) { return matchPattern(value, m_Zero()) || matchPattern(value, m_AnyZeroFloat()); }

  void setType(Value value, const Sharding &sharding) { value.setType(withSharding(typeOf(value), sharding, mesh)); }
  Sharding shardingOf(Value value) { return toSharding(typeOf(value), mesh); }

  void write(Operation *op) {
    int number = problem.opOf.lookup(op);
    const ShardingRule &rule = problem.problem.ops[number].rule;
    const FactorAxes &factors = plan.ops[number];
    auto [pending, kind] = *contractedAxes(rule, factors);
    Reduction passedKind = Reduction::sum;
    Axes passed = passThrough(op, rule, factors, passedKind);
    if (!passed.empty() && (pending.empty() || passedKind == kind)) {
      kind = passedKind;
      pending.append(passed.begin(), passed.end());
      llvm::sort(pending);
    } else {
      passed.clear();
    }
    for (auto [i, operand] : llvm::enumerate(op->getOpOperands())) {
      Sharding want = *dist::shardingOf(mesh, rule, rule.operands[i], factors);
      want.pending = (int)i == rule.accumulator ? pending : passed;
      want.kind = kind;
      operand.set(resharded(operand.get(), want, op));
    }
    for (auto [i, result] : llvm::enumerate(op->getResults())) {
      Sharding have = *dist::shardingOf(mesh, rule, rule.results[i], factors);
      have.pending = pending;
      have.kind = kind;
      setType(result, have);
    }
  }

  /// Axes over which the operands may stay pending: all alike, needed by nobody else, and not growing.
  Axes passThrough(Operation *op, const ShardingRule &rule, const FactorAxes &factors, Reduction &kind) {
    if (rule.linear != Linear::all && rule.linear != Linear::movement)
      return {};
    std::vector<Sharding> shardings;
    int64_t largest = 0;
    for (Value operand : op->getOperands()) {
      if (isZero(operand) && rule.linear == Linear::all)
        continue;
      shardings.push_back(shardingOf(operand));
      if (shardings.back().pending.empty() || !llvm::hasSingleElement(operand.getUsers()))
        return {};
      largest = std::max(largest, typeOf(operand).getNumElements());
    }
    if (typeOf(op->getResult(0)).getNumElements() > largest)
      return {};
    Axes passed = passingAxes(rule, shardings, kind);
    for (const Axes &axes : factors)
      for (int axis : axes)
        if (llvm::is_contained(passed, axis))
          return {};
    return passed;
  }

  /// The value in a sharding: itself, a constant of that type, or a reshard, of which there is one for each sharding.
  Value resharded(Value value, Sharding want, Operation *user) {
    RankedTensorType type = withSharding(typeOf(value), want, mesh);
    if (value.getType() == type)
      return value;
    if (Operation *producer = value.getDefiningOp(); isSplat(producer) && (want.pending.empty() || isZero(value))) {
      builder.setInsertionPoint(user);
      auto splat = cast<SplatElementsAttr>(cast<graph::ConstantOp>(producer).getValue());
      return graph::ConstantOp::create(builder, producer->getLoc(), splat.resizeSplat(type));
    }
    // A state that is gathered is gathered for each use, so that it need not stay whole from the forward to the backward
    // part (ZeRO-3); the number keeps equal gathers apart.
    if (isa<BlockArgument>(value) && want.replicated()) {
      builder.setInsertionPoint(user);
      auto gather = ReshardOp::create(builder, value.getLoc(), type, value);
      gather->setAttr(dist::names::use, builder.getI64IntegerAttr(gathers++));
      return gather;
    }
    Value &known = reshards[{value, type}];
    if (!known) {
      builder.setInsertionPointAfterValue(value);
      known = ReshardOp::create(builder, value.getLoc(), type, value);
    }
    return known;
  }

  /// Renewed states lie as the states do; what the runtime reads is on every device.
  void writeReturn(Operation *terminator) {
    for (auto [i, operand] : llvm::enumerate(terminator->getOpOperands())) {
      Sharding want(typeOf(operand.get()).getRank());
      if (auto name = function.getResultAttrOfType<StringAttr>(i, graph::names::renews))
        for (BlockArgument argument : function.getArguments())
          if (auto state = function.getArgAttrOfType<DictionaryAttr>(argument.getArgNumber(), graph::names::state))
            if (state.getAs<StringAttr>("name") == name)
              want = shardingOf(argument);
      operand.set(resharded(operand.get(), want, terminator));
    }
  }

  func::FuncOp function;
  const ModuleProblem &problem;
  const Plan &plan;
  const Mesh &mesh;
  OpBuilder builder;
  llvm::DenseMap<std::pair<Value, Type>, Value> reshards;
  int64_t gathers = 0;
};
} // namespace

void planning::applyPlan(ModuleOp module, const ModuleProblem &problem, const Plan &plan, const Mesh &mesh) {
  for (auto function : module.getOps<func::FuncOp>())
    if (!function.isDeclaration())
      Writer(function, problem, plan, mesh).run();
}
