#include "passes/Planning/ApplyPlan.h"

#include "dialects/Graph/Nodes.h"
#include "passes/Planning/Expansion.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::dist;
using namespace divisi::planning;
using divisi::graph::tensorType;

namespace {

/// Writes an expansion into the IR: sharded types, and a dist.reshard for every version that has a source.
class Writer {
public:
  Writer(ModuleOp module, const ModuleProblem &problem, const Expansion &expansion, const Mesh &mesh)
      : module(module), problem(problem), expansion(expansion), mesh(mesh), builder(module),
        values(expansion.versions.size()) {}

  void run() {
    for (auto [value, tensor] : problem.tensorOf)
      values[expansion.produced[tensor]] = value;
    auto output = expansion.outputs.begin();
    for (auto function : module.getOps<func::FuncOp>()) {
      if (function.isDeclaration())
        continue;
      Block &block = function.getBody().front();
      for (BlockArgument argument : block.getArguments())
        setType(argument, produced(argument));
      SmallVector<Operation *> operations;
      for (Operation &op : block.without_terminator())
        operations.push_back(&op);
      int64_t gathers = 0;
      for (Operation *op : operations)
        write(op, gathers);
      Operation *terminator = block.getTerminator();
      for (OpOperand &operand : terminator->getOpOperands())
        operand.set(value(*output++));
      auto types = terminator->getOperandTypes();
      function.setFunctionType(FunctionType::get(function.getContext(), block.getArgumentTypes(), types));
      function->setAttr(dist::names::mesh, toAttr(mesh, function.getContext()));
    }
  }

private:
  const Sharding &produced(Value value) const {
    return expansion.versions[expansion.produced[problem.tensorOf.lookup(value)]].sharding;
  }
  RankedTensorType typeOf(Value value, const Sharding &sharding) {
    return withSharding(tensorType(value), sharding, mesh);
  }
  void setType(Value value, const Sharding &sharding) { value.setType(typeOf(value, sharding)); }

  void write(Operation *op, int64_t &gathers) {
    int number = problem.opOf.lookup(op);
    for (auto [i, operand] : llvm::enumerate(op->getOpOperands())) {
      int version = expansion.operands[number][i];
      const Expansion::Version &entry = expansion.versions[version];
      if (entry.user < 0) {
        operand.set(value(version));
        continue;
      }
      Value source = entry.source < 0 ? operand.get() : value(entry.source);
      builder.setInsertionPoint(op);
      operand.set(entry.source < 0 ? constant(source, entry.sharding) : reshard(source, entry.sharding));
      if (entry.source >= 0) // so that common subexpression elimination keeps equal gathers apart
        operand.get().getDefiningOp()->setAttr(dist::names::use, builder.getI64IntegerAttr(gathers++));
    }
    for (Value result : op->getResults())
      setType(result, produced(result));
  }

  /// A version's value, created immediately behind its source.
  Value value(int version) {
    const Expansion::Version &entry = expansion.versions[version];
    Value &known = values[version];
    if (known)
      return known;
    Value source = entry.source < 0 ? values[expansion.produced[entry.tensor]] : value(entry.source);
    builder.setInsertionPointAfterValue(source);
    return known = entry.source < 0 ? constant(source, entry.sharding) : reshard(source, entry.sharding);
  }

  Value constant(Value whole, const Sharding &sharding) {
    auto splat = cast<SplatElementsAttr>(cast<graph::ConstantOp>(whole.getDefiningOp()).getValue());
    return graph::ConstantOp::create(builder, whole.getLoc(), splat.resizeSplat(typeOf(whole, sharding)));
  }
  Value reshard(Value source, const Sharding &sharding) {
    return ReshardOp::create(builder, source.getLoc(), typeOf(source, sharding), source);
  }

  ModuleOp module;
  const ModuleProblem &problem;
  const Expansion &expansion;
  const Mesh &mesh;
  OpBuilder builder;
  std::vector<Value> values; // by version
};
} // namespace

void planning::applyPlan(ModuleOp module, const ModuleProblem &problem, const Plan &plan, const Mesh &mesh) {
  Writer(module, problem, expand(problem.problem, mesh, plan), mesh).run();
  graph::nameNodes(module);
}
