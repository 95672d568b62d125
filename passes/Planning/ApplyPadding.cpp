#include "passes/Planning/ApplyPadding.h"

#include "dialects/Dist/Tasks.h"
#include "dialects/Graph/GraphBuilder.h"
#include "dialects/Graph/Neutral.h"
#include "dialects/Graph/Nodes.h"

#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::graph;
using namespace divisi::planning;
using dist::Linear;
using dist::Reduction;
using dist::ShardingRule;

namespace {

class Padder {
public:
  Padder(func::FuncOp function, const ModuleProblem &problem, const PadClass &pads)
      : function(function), problem(problem), pads(pads), builder(function) {
    builder.setListener(&stages);
  }

  void run() {
    Block &block = function.getBody().front();
    SmallVector<Operation *> operations;
    for (Operation &op : block.without_terminator())
      operations.push_back(&op);
    for (BlockArgument argument : block.getArguments())
      padArgument(argument);
    for (Operation *op : operations) {
      stages.follow(op);
      padOperation(op);
    }
    padReturn(block.getTerminator());
    auto types = block.getTerminator()->getOperandTypes();
    function.setFunctionType(FunctionType::get(function.getContext(), block.getArgumentTypes(), types));
  }

private:
  SmallVector<int> dimsOf(Value value) const {
    auto it = problem.tensorOf.find(value);
    return it == problem.tensorOf.end() ? SmallVector<int>() : pads.dimsOf(it->second);
  }
  RankedTensorType resized(RankedTensorType type, ArrayRef<int> dims, int64_t size) {
    SmallVector<int64_t> shape(type.getShape());
    for (int d : dims)
      shape[d] = size;
    return RankedTensorType::get(shape, type.getElementType());
  }

  void padArgument(BlockArgument argument) {
    SmallVector<int> dims = dimsOf(argument);
    if (dims.empty())
      return;
    unsigned i = argument.getArgNumber();
    auto type = tensorType(argument);
    if (function.getArgAttr(i, graph::names::state)) {
      if (!function.getArgAttr(i, graph::names::unpadded))
        function.setArgAttr(i, graph::names::unpadded, builder.getDenseI64ArrayAttr(type.getShape()));
      argument.setType(resized(type, dims, pads.paddedSize()));
      now[argument] = argument;
      zero.insert(argument);
      return;
    }
    builder.setInsertionPointToStart(&function.getBody().front());
    double value = 0;
    if (auto padding = function.getArgAttrOfType<IntegerAttr>(i, "graph.padding"))
      value = padding.getInt();
    now[argument] = padded(argument, dims, argument.getLoc(), value);
  }

  /// Pads these dimensions of a value at the end with `fill`.
  Value padded(Value value, ArrayRef<int> dims, Location loc, double fill = 0) {
    GraphBuilder b(builder, loc);
    auto type = resized(tensorType(value), dims, pads.paddedSize());
    SmallVector<int64_t> low(type.getRank(), 0);
    Value result = b.pad(value, low, type.getShape(), fill);
    result.getDefiningOp()->setAttr(graph::names::neutral, builder.getUnitAttr());
    if (fill == 0)
      zero.insert(result);
    return result;
  }

  /// Slices a padded value back to the model's size along these dimensions.
  Value cut(Value old, Value value, ArrayRef<int> dims) {
    if (dims.empty())
      return value;
    uint64_t mask = 0;
    for (int d : dims)
      mask |= uint64_t(1) << d;
    Value &known = cuts[{old, mask}];
    if (!known) {
      OpBuilder::InsertionGuard guard(builder);
      llvm::SaveAndRestore stage(stages.stage);
      stages.follow(value.getDefiningOp());
      builder.setInsertionPointAfterValue(value);
      GraphBuilder b(builder, old.getLoc());
      SmallVector<int64_t> starts(tensorType(value).getRank(), 0);
      known = b.slice(value, starts, resized(tensorType(value), dims, pads.size()).getShape());
    }
    return known;
  }

  /// Replaces the elements beyond the model's size along these dimensions by `fill`.
  Value masked(Value value, ArrayRef<int> dims, Attribute fill) {
    GraphBuilder b(builder, value.getLoc());
    auto shape = shapeOf(value);
    for (int d : dims) {
      Value inside = b.compareConst(Predicate::lt, b.iota({pads.paddedSize()}, 0), pads.size());
      Value filled = b.constant(DenseElementsAttr::get(tensorType(value), fill));
      value = b.select(b.broadcast(inside, shape, {d}), value, filled);
    }
    return value; // the padding along other dimensions may be nonzero
  }

  static Type elementType(Value value) { return tensorType(value).getElementType(); }

  void padOperation(Operation *op) {
    int number = problem.opOf.lookup(op);
    const ShardingRule &rule = problem.problem.ops[number].rule;
    builder.setInsertionPoint(op);
    // Of the padded dimensions of a value, those along which this operation grows (or does not grow).
    auto dimsThat = [&](bool grow, Value value, const ShardingRule::Dims &dims) {
      return llvm::filter_to_vector(dimsOf(value), [&](int d) {
        return llvm::any_of(dims[d], [&](int factor) { return pads.grows(number, factor); }) == grow;
      });
    };
    const SmallVector<Value> olds(op->getOperands());
    for (auto [i, operand] : llvm::enumerate(op->getOpOperands())) {
      Value old = operand.get();
      Value padded = isCall(op) ? zeros.lookup(old) : Value();
      if (!padded)
        padded = now.lookup(old);
      if (padded)
        operand.set(cut(old, padded, dimsThat(false, old, rule.operands[i])));
    }
    for (auto [f, factor] : llvm::enumerate(rule.factors))
      if (pads.grows(number, f) && factor.reduction && !factor.indexed)
        neutralize(op, olds, rule, f);
    for (auto [i, result] : llvm::enumerate(op->getResults())) {
      SmallVector<int> dims = dimsOf(result);
      if (dims.empty())
        continue;
      SmallVector<int> rest = dimsThat(false, result, rule.results[i]);
      const bool zeros = staysZero(op, number, rule, i);
      now[result] = result;
      if (rest.size() < dims.size())
        cast<dist::ShardingRuleInterface>(op).growResult(
            i, resized(tensorType(result), dimsThat(true, result, rule.results[i]), pads.paddedSize()));
      if (!rest.empty()) {
        builder.setInsertionPointAfterValue(result);
        now[result] = padded(result, rest, op->getLoc());
      }
      if (!zeros && hasPole(op, olds, i)) {
        builder.setInsertionPointAfterValue(now[result]);
        now[result] = masked(now[result], dims, neutralOf(Reduction::sum, elementType(result)));
        zero.insert(now[result]);
      } else if (zeros) {
        zero.insert(now[result]);
      } else {
        zero.erase(now[result]);
      }
    }
  }

  /// Whether a result may be infinite or NaN in its padding: behind a division by padding, say. Zero times infinity is NaN, so that nothing
  /// else may read it.
  bool hasPole(Operation *op, ArrayRef<Value> olds, unsigned result) const {
    const int pole = cast<dist::ShardingRuleInterface>(op).getPole();
    if (pole < 0 || !isa<FloatType>(elementType(op->getResult(result))) || dimsOf(olds[pole]).empty())
      return false;
    auto number = splatOf(olds[pole]);
    return !number || *number == 0;
  }

  /// Makes the padding of a contracted factor neutral. For a sum it is zero in every operand, not only in one: an exponential
  /// may overflow there, and 0 * inf is NaN. For a maximum or minimum it is the least or greatest number. `olds` are the
  /// operands in the model.
  void neutralize(Operation *op, ArrayRef<Value> olds, const ShardingRule &rule, int factor) {
    SmallVector<std::pair<OpOperand *, SmallVector<int>>> open;
    for (auto [i, operand] : llvm::enumerate(op->getOpOperands())) {
      SmallVector<int> dims;
      for (auto [d, list] : llvm::enumerate(rule.operands[i]))
        if (llvm::is_contained(list, factor))
          dims.push_back(d);
      if (dims.empty() || elementType(operand.get()) != elementType(op->getResult(0)))
        continue; // indices
      if (rule.factors[factor].reduction != Reduction::sum || !zero.contains(operand.get()))
        open.push_back({&operand, dims});
    }
    for (auto &[operand, dims] : open) {
      Value old = olds[operand->getOperandNumber()], value = operand->get();
      if (isCall(op) && now.lookup(old) == value)
        operand->set(zeroed(op, old));
      else
        operand->set(masked(value, dims, neutralOf(*rule.factors[factor].reduction, elementType(value))));
    }
  }

  static bool isCall(Operation *op) {
    auto cost = dyn_cast<CostInterface>(op);
    return cost && graph::isCall(cost.getForm());
  }

  /// A value with zeros in its padding, for all library calls that read it, so that memory does not hold it twice.
  /// (Kernels compute what they read.)
  Value zeroed(Operation *at, Value old) {
    OpBuilder::InsertionGuard guard(builder);
    llvm::SaveAndRestore stage(stages.stage);
    Value value = now.lookup(old);
    SmallVector<OpOperand *> uses;
    for (OpOperand &use : value.getUses())
      if (isCall(use.getOwner()) && use.getOwner()->isBeforeInBlock(at)) // later ones ask for it
        uses.push_back(&use);
    stages.follow(value.getDefiningOp());
    builder.setInsertionPointAfterValue(value);
    Value result = masked(value, dimsOf(old), neutralOf(Reduction::sum, elementType(value)));
    for (OpOperand *use : uses)
      use->set(result);
    zero.insert(result);
    return zeros[old] = result;
  }

  /// Whether a result is zero in its padding. This holds for linear operations whose operands are zero there along each
  /// padded factor of the result: one operand of a multiplication, if the other is finite, all terms of a sum.
  bool staysZero(Operation *op, int number, const ShardingRule &rule, unsigned result) const {
    if (rule.zero)
      return true;
    const dist::Zeros where = rule.linear == Linear::each ? dist::Zeros::any
                              : rule.linear != Linear::no ? dist::Zeros::all
                                                          : cast<dist::ShardingRuleInterface>(op).getZeros();
    auto isBoolean = [](Value value) { return elementType(value).isInteger(1); };
    for (const auto &list : rule.results[result])
      for (int factor : list) {
        bool any = false, all = op->getNumOperands() > 0;
        for (auto [operand, dims] : llvm::zip(op->getOperands(), rule.operands)) {
          if (op->getNumOperands() > 1 && isBoolean(operand) && !isBoolean(op->getResult(result)))
            continue; // a condition
          bool known = zero.contains(operand) &&
                       llvm::any_of(dims, [&](const auto &other) { return llvm::is_contained(other, factor); });
          any |= known;
          all &= known;
        }
        if (pads.grows(number, factor) && !(where == dist::Zeros::any ? any : where == dist::Zeros::all && all))
          return false;
      }
    return true;
  }

  void padReturn(Operation *terminator) {
    builder.setInsertionPoint(terminator);
    for (auto [i, operand] : llvm::enumerate(terminator->getOpOperands())) {
      Value old = operand.get();
      auto it = now.find(old);
      if (it == now.end())
        continue;
      if (!function.getResultAttr(i, graph::names::renews))
        operand.set(cut(old, it->second, dimsOf(old)));
      else if (SmallVector<int> dims = dimsOf(old); zero.contains(it->second))
        operand.set(it->second);
      else {
        stages.follow(it->second.getDefiningOp());
        operand.set(masked(it->second, dims, neutralOf(Reduction::sum, elementType(it->second))));
      }
    }
  }

  func::FuncOp function;
  const ModuleProblem &problem;
  const PadClass &pads;
  OpBuilder builder;
  dist::StageListener stages;
  llvm::DenseMap<Value, Value> now;                       // by the model's value: the padded one
  llvm::DenseMap<Value, Value> zeros;                     // the same with zeros in the padding, for library calls
  llvm::DenseMap<std::pair<Value, uint64_t>, Value> cuts; // sliced back along some dimensions
  llvm::DenseSet<Value> zero;                             // values that are zero in their padding
};
} // namespace

void planning::applyPadding(ModuleOp module, const ModuleProblem &problem, const PadClass &pads) {
  for (auto function : module.getOps<func::FuncOp>())
    if (!function.isDeclaration())
      Padder(function, problem, pads).run();
  nameNodes(module);
}
