#include "dialects/Dist/FactorAxes.h"

#include "mlir/Interfaces/InferTypeOpInterface.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::dist;

namespace {

bool isSharded(Type type) { return (bool)shardOf(type); }

std::string splitText(AxesRef axes, const Mesh &mesh) {
  return axes.empty() ? "whole" : "split over " + toText(axes, mesh);
}

class Checker {
public:
  Checker(ShardingRuleInterface op, const Mesh &mesh)
      : op(op), rule(op.getShardingRule()), mesh(mesh), axes(rule.factors.size()), where(rule.factors.size()) {}

  LogicalResult run() {
    for (auto [i, value] : llvm::enumerate(op->getOperands()))
      if (failed(checkTensor("operand", i, value, rule.operands[i])))
        return failure();
    for (auto [i, value] : llvm::enumerate(op->getResults()))
      if (failed(checkTensor("result", i, value, rule.results[i])))
        return failure();
    if (failed(checkFactors()))
      return failure();
    return checkPending();
  }

private:
  static std::string place(StringRef kind, int tensor, size_t dim) {
    return (kind + " #" + Twine(tensor) + " (dimension " + Twine(dim) + ")").str();
  }

  LogicalResult checkTensor(StringRef kind, int index, Value value, const ShardingRule::Dims &dims) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!type || (int64_t)dims.size() != type.getRank())
      return op->emitOpError("sharding rule does not fit ") << kind << " #" << index;
    if (failed(localType(type, mesh, [&] { return op->emitOpError(kind) << " #" << index << ": "; })))
      return failure();
    Sharding sharding = toSharding(type, mesh);
    (kind == "operand" ? operands : results).push_back(sharding);
    for (auto [d, factors] : llvm::enumerate(dims))
      if (failed(checkDim(place(kind, index, d), factors, sharding.dims[d])))
        return failure();
    return success();
  }

  LogicalResult checkDim(const std::string &here, ArrayRef<int> factors, AxesRef split) {
    if (factors.empty()) {
      if (split.empty())
        return success();
      return op->emitOpError(here) << " is " << splitText(split, mesh)
                                   << ", but this operation has no factor there to split";
    }
    FactorAxes mine(rule.factors.size());
    if (!axesToFactors(mesh, rule, factors, split, mine))
      return op->emitOpError(here) << " is " << splitText(split, mesh) << ", which cuts through its factor '"
                                   << rule.factors[factors.front()].name << "' of size "
                                   << rule.factors[factors.front()].size;
    for (int f : factors) {
      auto &factor = rule.factors[f];
      if (factor.whole && !mine[f].empty())
        return op->emitOpError("needs factor '")
               << factor.name << "' whole, but " << here << " is " << splitText(mine[f], mesh);
      if (int64_t parts = mesh.parts(mine[f]); parts > 1 && factor.size / parts < factor.least)
        return op->emitOpError("splits factor '")
               << factor.name << "' of size " << factor.size << " into " << parts << " parts in " << here
               << ", but a piece must have at least " << factor.least;
      if (where[f].empty()) {
        where[f] = here;
        axes[f] = mine[f];
      } else if (axes[f] != mine[f]) {
        auto diag = op->emitOpError("splits factor '")
                    << factor.name << "' inconsistently: " << where[f] << " is " << splitText(axes[f], mesh) << ", but "
                    << here << " is " << splitText(mine[f], mesh);
        diag.attachNote() << "put a dist.reshard on one of them";
        return diag;
      }
    }
    return success();
  }

  /// Checks that each axis shards only one factor.
  LogicalResult checkFactors() {
    SmallVector<int> user(mesh.axes.size(), -1);
    for (auto [f, list] : llvm::enumerate(axes))
      for (int axis : list) {
        if (user[axis] >= 0)
          return op->emitOpError("splits two factors, '")
                 << rule.factors[user[axis]].name << "' and '" << rule.factors[f].name << "', over the same axis \""
                 << mesh.axes[axis].name << "\"";
        user[axis] = f;
      }
    return success();
  }

  LogicalResult checkPending() {
    if (rule.zero)
      return success();
    auto contracted = contractedAxes(rule, axes);
    if (!contracted)
      return op->emitOpError("splits factors that combine by different reductions");
    auto [expected, kind] = *contracted;
    std::vector<Sharding> passing;
    for (auto [i, operand] : llvm::enumerate(operands)) {
      if ((int)i == rule.accumulator) {
        if (failed(checkAccumulator(i, operand, expected)))
          return failure();
        continue;
      }
      passing.push_back(operand);
    }
    Reduction through = Reduction::sum;
    Axes passed = passingAxes(rule, passing, through);
    for (auto [i, operand] : llvm::enumerate(operands))
      if ((int)i != rule.accumulator && operand.pending != passed && !operand.pending.empty())
        return refusePending(i, operand);
    if (rule.linear == Linear::all || rule.linear == Linear::movement)
      for (auto [i, operand] : llvm::enumerate(operands))
        if ((int)i != rule.accumulator && operand.pending != passed)
          return refusePending(i, operand);
    if (!passed.empty() && !expected.empty() && through != kind)
      return op->emitOpError("would mix a pending ")
             << stringifyReductionKind((ReductionKind)through) << " and a pending "
             << stringifyReductionKind((ReductionKind)kind);
    if (!passed.empty())
      kind = through;
    for (int axis : passed) {
      for (auto [f, list] : llvm::enumerate(axes))
        if (llvm::is_contained(list, axis))
          return op->emitOpError("passes on what is pending over \"")
                 << mesh.axes[axis].name << "\", which splits its factor '" << rule.factors[f].name << "'";
      if (llvm::is_contained(expected, axis))
        return op->emitOpError("combines twice over \"") << mesh.axes[axis].name << "\"";
      expected.push_back(axis);
    }
    llvm::sort(expected);
    for (const Sharding &result : results)
      if (failed(checkResult(result, expected, kind)))
        return failure();
    return success();
  }

  LogicalResult checkAccumulator(int i, const Sharding &operand, const Axes &expected) {
    if (operand.pending == expected && (expected.empty() || operand.kind == Reduction::sum))
      return success();
    return op->emitOpError("adds to operand #")
           << i << ", which must be a pending sum over " << toText(expected, mesh) << " as the result is, but is "
           << (operand.pending.empty() ? "final" : "pending over ")
           << (operand.pending.empty() ? "" : toText(operand.pending, mesh));
  }

  LogicalResult refusePending(int i, const Sharding &operand) {
    auto diag = op->emitOpError();
    if (rule.linear == Linear::no)
      diag << "is not linear, but operand #" << i << " is a pending ";
    else if (rule.linear == Linear::each)
      diag << "is linear in one operand at a time, but not only operand #" << i << " is a pending ";
    else
      diag << "needs all operands pending alike, but operand #" << i << " is "
           << (operand.pending.empty() ? "final, not a pending " : "a pending ");
    diag << stringifyReductionKind((ReductionKind)operand.kind) << " over " << toText(operand.pending, mesh);
    diag.attachNote() << "reduce it first with a dist.reshard";
    return diag;
  }

  LogicalResult checkResult(const Sharding &result, const Axes &contracted, Reduction kind) {
    const Axes expected = pendingIn(result, contracted);
    if (result.pending == expected && (expected.empty() || result.kind == kind))
      return success();
    auto diag = op->emitOpError("result must be ");
    if (expected.empty())
      diag << "final, but its type says pending over " << toText(result.pending, mesh);
    else
      diag << "a pending " << stringifyReductionKind((ReductionKind)kind) << " over " << toText(expected, mesh);
    for (auto [f, list] : llvm::enumerate(axes))
      if (!list.empty() && rule.factors[f].reduction)
        diag.attachNote() << "contracted factor '" << rule.factors[f].name << "' is " << splitText(list, mesh) << " in "
                          << where[f];
    return diag;
  }

  ShardingRuleInterface op;
  ShardingRule rule;
  const Mesh &mesh;
  FactorAxes axes;
  SmallVector<std::string> where; // the first dimension that determined a factor
  std::vector<Sharding> operands, results;
};
} // namespace

/// What a rule reads: attributes and shapes that fit, as the operation's own verifier and the inference of its results see
/// to, which are otherwise called after its interfaces' verifiers.
static LogicalResult verifyBefore(ShardingRuleInterface op) {
  if (auto inferred = dyn_cast<InferTypeOpInterface>(op.getOperation())) {
    SmallVector<Type> types;
    if (failed(inferred.inferReturnTypes(op->getContext(), op->getLoc(), op->getOperands(), op->getRawDictionaryAttrs(),
                                         op->getPropertiesStorage(), op->getRegions(), types)))
      return failure();
  }
  return op.verifyItself();
}

LogicalResult dist::verifySharding(ShardingRuleInterface op) {
  if (llvm::none_of(op->getOperandTypes(), isSharded) && llvm::none_of(op->getResultTypes(), isSharded))
    return success(); // replicated, local, or for one device
  if (failed(verifyBefore(op)))
    return failure();
  MeshAttr mesh = meshOf(op);
  if (!mesh)
    return op->emitOpError("has sharded types, but is not in a function with a mesh ('dist.mesh')");
  return Checker(op, toMesh(mesh)).run();
}
