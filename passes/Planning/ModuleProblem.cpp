#include "passes/Planning/ModuleProblem.h"

#include "dialects/Dist/Tasks.h"
#include "dialects/Graph/Arguments.h"
#include "dialects/Graph/Nodes.h"
#include "dialects/Graph/WhenNeeded.h"
#include "step/Work.h"

#include "mlir/IR/Matchers.h"

#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::planning;
using Role = Problem::Role;

namespace {

class Collector {
public:
  /// Of a task, with its number of runs in a step.
  Collector(ModuleProblem &result, Operation *scope, std::optional<int64_t> times = {})
      : result(result), problem(result.problem), ofTask(times) {
    size_t ops = 0, values = 0; // at most
    scope->walk([&](Operation *op) {
      ++ops;
      values += op->getNumResults();
      for (Region &region : op->getRegions())
        values += region.getNumArguments();
    });
    problem.ops.reserve(ops);
    problem.tensors.reserve(values);
  }

  LogicalResult add(func::FuncOp function) {
    auto count = function->getAttrOfType<IntegerAttr>(graph::names::microbatches); // (tasks have none)
    microbatches = ofTask.value_or(count ? count.getInt() : 1);
    for (BlockArgument argument : function.getArguments())
      if (failed(describe(function, argument)))
        return failure();
    bool forward = function.getName() == "evaluate";
    for (Operation &op : function.getBody().front().without_terminator())
      if (failed(add(op, forward)))
        return failure();
    size_t firstOutput = problem.outputs.size();
    Operation *terminator = function.getBody().front().getTerminator();
    for (auto [i, value] : llvm::enumerate(terminator->getOperands())) {
      Problem::Output output{tensor(value)};
      if (auto result = function.getResultAttrOfType<DictionaryAttr>(i, graph::names::result)) {
        output.loss = result.getAs<StringAttr>("kind") && result.getAs<StringAttr>("kind").getValue() == "loss";
        output.seldom = result.contains("when");
      }
      if (auto name = function.getResultAttrOfType<StringAttr>(i, graph::names::renews))
        if (auto it = states.find(name.getValue()); it != states.end())
          output.state = it->second;
      if (auto name = heldName(function.getResultAttrDict(i))) {
        output.held = true;
        output.seldom = function.getResultAttr(i, dist::names::when) != nullptr;
        if (auto it = held.find(name.getValue()); it != held.end())
          output.state = it->second;
      }
      problem.outputs.push_back(output);
    }
    markSeldom(firstOutput);
    return success();
  }

private:
  /// The name of what tasks of a stage pass on; null: nothing.
  static StringAttr heldName(DictionaryAttr attributes) {
    auto held = attributes ? attributes.getAs<DictionaryAttr>(dist::names::held) : DictionaryAttr();
    return held ? held.getAs<StringAttr>("name") : StringAttr();
  }

  /// Marks the operations of the newest function that only outputs of some steps depend on.
  void markSeldom(size_t firstOutput) {
    std::vector<bool> needed(problem.tensors.size());
    for (size_t i = firstOutput; i < problem.outputs.size(); ++i)
      if (!problem.outputs[i].seldom)
        needed[problem.outputs[i].tensor] = true;
    for (size_t i = problem.ops.size(); i-- > firstOp;) {
      Problem::Op &op = problem.ops[i];
      op.seldom = !op.message && llvm::none_of(op.results, [&](int t) { return needed[t]; });
      if (!op.seldom)
        for (int t : op.operands)
          needed[t] = true;
    }
    firstOp = problem.ops.size();
  }

  int tensor(Value value) {
    auto [it, fresh] = result.tensorOf.try_emplace(value, problem.tensors.size());
    if (fresh) {
      auto shape = graph::shapeOf(value);
      Problem::Tensor entry;
      entry.shape.assign(shape.begin(), shape.end());
      entry.elementBytes = graph::bytesOfElement(graph::tensorType(value).getElementType());
      if (auto constant = value.getDefiningOp<graph::ConstantOp>()) {
        entry.splat = constant.getValue().isSplat();
        entry.zero = matchPattern(value, m_Zero()) || matchPattern(value, m_AnyZeroFloat());
      }
      problem.tensors.push_back(std::move(entry));
      result.types.push_back(value.getType());
    }
    return it->second;
  }

  /// Only tensors of known sizes can be split.
  static LogicalResult check(Operation *op, TypeRange types) {
    for (Type type : types)
      if (auto tensor = dyn_cast<RankedTensorType>(type); !tensor || !tensor.hasStaticShape())
        return op->emitError("cannot be planned for several devices: the size of ") << type << " is not known";
    return success();
  }

  LogicalResult describe(func::FuncOp function, BlockArgument argument) {
    if (failed(check(function, argument.getType())))
      return failure();
    int number = tensor(argument);
    Problem::Tensor &t = problem.tensors[number];
    if (graph::nameOfArgument(argument) == "microbatch")
      t.repeats = microbatches;
    unsigned i = argument.getArgNumber();
    if (auto state = function.getArgAttrOfType<DictionaryAttr>(i, graph::names::state)) {
      auto name = state.getAs<StringAttr>("name"), kind = state.getAs<StringAttr>("role");
      if (!name || !kind)
        return function.emitError("argument #") << i << ": 'graph.state' needs a name and a role";
      StringRef role = kind.getValue();
      t.name = name.str();
      t.role = role == "parameter" ? Role::parameter : role == "moment" ? Role::moment : Role::other;
      // @evaluate may read a parameter's moving average in its place.
      t.weight = t.role == Role::parameter || (t.role == Role::moment && function.getName() == "evaluate");
      if (auto [it, fresh] = states.try_emplace(t.name, number); !fresh)
        problem.same.push_back({it->second, number});
    } else if (auto name = function.getArgAttrOfType<StringAttr>(i, graph::names::input)) {
      t.role = Role::input;
      t.name = name.str();
      if (auto [it, fresh] = inputs.try_emplace(t.name, number); !fresh)
        problem.same.push_back({it->second, number});
      size_t dim = function.getArgAttr(i, graph::names::microbatches) ? 1 : 0;
      if (batch == 0 && t.shape.size() > dim)
        batch = t.shape[dim];
      if (t.shape.size() > dim && t.shape[dim] == batch)
        problem.batchDims.push_back({number, (int)dim});
    } else {
      t.weight = graph::isScalar(argument, "averaged"); // which of them it reads
      if (auto name = heldName(function.getArgAttrDict(i)))
        held[name.getValue()] = number;
    }
    return success();
  }

  LogicalResult add(Operation &op, bool forward) {
    auto rule = dyn_cast<dist::ShardingRuleInterface>(op);
    const bool communicates = ofTask && isa<dist::DistDialect>(op.getDialect());
    if (!rule && !communicates)
      return op.emitError("'") << op.getName() << "' has no sharding rule: it cannot be planned for several devices";
    if (failed(check(&op, op.getOperandTypes())) || failed(check(&op, op.getResultTypes())))
      return failure();
    Problem::Op entry{rule ? rule.getShardingRule() : dist::ShardingRule(), {}, {}, forward};
    if (communicates) {
      entry.form = graph::Form::call;
      entry.message = isa<dist::SendOp, dist::ReceiveOp>(op);
      entry.collective = !entry.message;
      auto whole = [](Value value) { return decltype(entry.rule.operands)::value_type(graph::shapeOf(value).size()); };
      llvm::append_range(entry.rule.operands, llvm::map_range(op.getOperands(), whole));
      llvm::append_range(entry.rule.results, llvm::map_range(op.getResults(), whole));
    }
    if (auto cost = dyn_cast<graph::CostInterface>(op))
      entry.flops = cost.getFlops(), entry.form = cost.getForm(), entry.pointFlops = cost.getFlopsPerPoint(),
      entry.workspace = cost.getLibraryWorkspace(), entry.readsPart = cost.readsPart();
    entry.precision = graph::precisionOf(&op);
    entry.causal = op.hasAttr(step::Work::causalAttribute);
    entry.images = op.hasAttr(step::Work::imagesAttribute);
    entry.name = graph::pathOf(&op);
    entry.kind = op.getName().getStringRef().str();
    entry.repeats = ofTask.value_or(1);
    bool weight = true;
    for (Value operand : op.getOperands()) {
      entry.operands.push_back(tensor(operand));
      if (problem.tensors[entry.operands.back()].repeats > 1)
        entry.repeats = microbatches;
      weight &= problem.tensors[entry.operands.back()].weight;
    }
    for (Value value : op.getResults()) {
      entry.results.push_back(tensor(value));
      problem.tensors[entry.results.back()].weight = weight;
      if (!isa<graph::AccumulateOp>(op)) // whose result is complete once a step
        problem.tensors[entry.results.back()].repeats = entry.repeats;
    }
    if (op.hasAttr(graph::names::neutral))
      for (auto &[batched, dim] : problem.batchDims)
        if (batched == entry.operands[0])
          batched = entry.results[0];
    result.opOf[&op] = problem.ops.size();
    result.ops.push_back(&op);
    problem.ops.push_back(std::move(entry));
    return success();
  }

  ModuleProblem &result;
  Problem &problem;
  llvm::StringMap<int> states, inputs, held;
  int64_t batch = 0;
  const std::optional<int64_t> ofTask;
  int64_t microbatches = 1; // of the function that is being added
  size_t firstOp = 0; // of the function that is being added
};
} // namespace

llvm::DenseSet<Operation *> planning::reportedOps(func::FuncOp function) {
  llvm::DenseSet<Operation *> result;
  SmallVector<Operation *> work;
  for (auto [i, value] : llvm::enumerate(function.getBody().front().getTerminator()->getOperands())) {
    auto report = function.getResultAttrOfType<DictionaryAttr>(i, graph::names::result);
    StringRef kind = report ? report.getAs<StringAttr>("kind").getValue() : "";
    if (report && kind != "grad_norm" && kind != graph::gradSquareBig && kind != graph::gradSquareSmall && value.getDefiningOp())
      work.push_back(value.getDefiningOp());
  }
  while (!work.empty()) {
    Operation *op = work.pop_back_val();
    if (!result.insert(op).second)
      continue;
    for (Value operand : op->getOperands())
      if (Operation *producer = operand.getDefiningOp())
        work.push_back(producer);
  }
  return result;
}

FailureOr<ModuleProblem> ModuleProblem::ofTask(func::FuncOp task, int64_t times) {
  ModuleProblem result;
  if (failed(Collector(result, task, times).add(task)))
    return failure();
  result.problem.local = true;
  result.problem.ordered = dist::kindOf(task.getName()) || task->hasAttr(dist::names::partitioned);
  return result;
}

FailureOr<ModuleProblem> ModuleProblem::build(ModuleOp module) {
  ModuleProblem result;
  Collector collector(result, module);
  for (auto function : module.getOps<func::FuncOp>())
    if (!function.isDeclaration() && failed(collector.add(function)))
      return failure();
  return result;
}
