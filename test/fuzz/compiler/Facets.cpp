#include "test/fuzz/compiler/Facets.h"

#include "dialects/Dist/Dist.h"
#include "dialects/Dist/FactorAxes.h"
#include "dialects/Dist/Reshard.h"
#include "dialects/Graph/Graph.h"
#include "dialects/Graph/GraphBuilder.h"
#include "dialects/Graph/WhenNeeded.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"

#include <cstdlib>

using namespace divisi;
using namespace mlir;

namespace {
constexpr size_t mostOperations = 100;
constexpr int64_t mostElements = 1 << 16;

void expect(bool holds, Operation *op, const char *what) {
  if (holds)
    return;
  llvm::errs() << "does not hold: " << what << " of\n" << *op << "\n";
  std::abort();
}

/// Whether passes may still ask for facets, before shardings are decided.
bool isSmall(Operation &op) {
  auto small = [](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && !tensor.getEncoding() && tensor.getRank() <= 8 && tensor.getNumElements() <= mostElements;
  };
  return llvm::all_of(op.getOperandTypes(), small) && llvm::all_of(op.getResultTypes(), small);
}

bool isDifferentiable(Value value) { return isa<FloatType>(getElementTypeOrSelf(value.getType())); }

void askRule(Operation &op) {
  auto ruled = dyn_cast<dist::ShardingRuleInterface>(op);
  if (!ruled)
    return;
  const std::string text = ruled.getShardingRule().str();
  expect(dist::ShardingRule(text, &op).str() == text, &op, "a rule's text is read as the same rule");
}

void askCost(Operation &op) {
  auto cost = dyn_cast<graph::CostInterface>(op);
  if (!cost)
    return;
  const graph::Workspace workspace = cost.getLibraryWorkspace();
  expect(cost.getFlops() >= 0 && cost.getModelFlops() >= 0 && cost.getFlopsPerPoint() >= 0 && cost.getBytes() >= 0 && workspace.fixed >= 0, &op,
         "a cost is not negative");
  (void)cost.getForm();
}

RankedTensorType tensorType(Value value) { return cast<RankedTensorType>(value.getType()); }

/// The bytes of one device's shard.
int64_t localBytes(Value value, const dist::Mesh &mesh) {
  return graph::bytesOf(*dist::localType(tensorType(value), mesh, [&] { return emitError(value.getLoc()); }));
}

void askReshard(dist::ReshardOp reshard, const dist::Mesh &mesh) {
  const dist::Sharding from = dist::toSharding(tensorType(reshard.getInput()), mesh), to = dist::toSharding(tensorType(reshard.getResult()), mesh);
  int64_t bytes = localBytes(reshard.getInput(), mesh);
  for (const dist::ReshardStep &step : dist::planReshard(from, to))
    expect(dist::bytesOfStep(mesh, step, bytes) >= 0, reshard, "the bytes of a collective");
  expect(bytes == localBytes(reshard.getResult(), mesh), reshard, "collectives end with the result's shard");
  const dist::Sharding sent = dist::sentSharding(from, to, tensorType(reshard.getInput()).getShape(), mesh);
  expect(sent.dims.size() == to.dims.size(), reshard, "the rank of what is sent");
}

/// Asks what passes ask of sharded operations.
void askShardings(Operation &op, const dist::Mesh &mesh) {
  if (auto reshard = dyn_cast<dist::ReshardOp>(op))
    askReshard(reshard, mesh);
  auto ruled = dyn_cast<dist::ShardingRuleInterface>(op);
  if (!ruled)
    return;
  const dist::ShardingRule rule = ruled.getShardingRule();
  for (auto [operand, dims] : llvm::zip(op.getOperands(), rule.operands)) {
    const dist::Sharding sharding = dist::toSharding(tensorType(operand), mesh);
    const dist::FactorAxes axes = dist::factorsOf(mesh, rule, dims, sharding);
    if (!dist::isValid(mesh, rule, axes))
      continue;
    auto again = dist::shardingOf(mesh, rule, dims, axes);
    expect(again && again->dims.size() == sharding.dims.size() && dist::contractedAxes(rule, axes), &op, "a valid sharding of factors is one of operands");
  }
}

/// Results built in an operation's place have its types.
void expectResults(Operation &op, ArrayRef<Value> built) {
  for (auto [value, result] : llvm::zip(built, op.getResults()))
    expect(!value || value.getType() == result.getType(), &op, "the type of what takes a result's place");
}

void build(Operation &op, graph::GraphBuilder &b) {
  if (auto composite = dyn_cast<graph::DecomposeInterface>(op))
    expectResults(op, composite.decompose(b));
  if (auto other = dyn_cast<graph::EvaluationInterface>(op))
    expectResults(op, other.buildEvaluation(b));
  if (auto loss = dyn_cast<graph::AccuracyInterface>(op))
    expect(loss.buildAccuracy(b).first.getType() == RankedTensorType::get({}, IntegerType::get(op.getContext(), 64)), &op, "the type of a number of correct answers");
  auto differentiable = dyn_cast<graph::GradientInterface>(op);
  if (!differentiable || !differentiable.hasGradient())
    return;
  SmallVector<Value> incoming; // each result as its own gradient
  for (Value result : op.getResults())
    incoming.push_back(isDifferentiable(result) ? result : Value());
  if (llvm::none_of(incoming, [](Value value) { return (bool)value; }))
    return;
  for (auto [operand, gradient] : llvm::zip(op.getOperands(), differentiable.buildGradient(b, incoming)))
    expect(!gradient || !isDifferentiable(operand) || gradient.getType() == operand.getType(), &op, "the type of a gradient");
}
} // namespace

void fuzz::askFacets(ModuleOp module) {
  for (auto function : module.getOps<func::FuncOp>()) {
    Block &block = function.getBody().front();
    if (dist::MeshAttr mesh = dist::meshOf(function))
      for (Operation &op : block.without_terminator())
        askShardings(op, dist::toMesh(mesh));
    (void)graph::whenNeeded(function);
    SmallVector<Operation *> all;
    for (Operation &op : block.without_terminator())
      if (isa_and_present<graph::GraphDialect>(op.getDialect()) && isSmall(op))
        all.push_back(&op);
    if (all.size() > mostOperations)
      continue;
    OpBuilder builder(block.getTerminator());
    for (Operation *op : all) {
      askRule(*op);
      askCost(*op);
      graph::GraphBuilder b(builder, op->getLoc());
      build(*op, b);
    }
  }
  expect(succeeded(verify(module)), module, "what facets build verifies");
}
