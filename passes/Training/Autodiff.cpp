#include "passes/Training/Autodiff.h"

#include "dialects/Graph/Nodes.h"
#include "passes/Training/GradientSum.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::graph;

/// Operations of the block that depend on one of the values, directly or indirectly.
static llvm::DenseSet<Operation *> dependents(Block &block, ValueRange values) {
  llvm::DenseSet<Value> reached(values.begin(), values.end());
  llvm::DenseSet<Operation *> result;
  for (Operation &op : block)
    if (llvm::any_of(op.getOperands(), [&](Value v) { return reached.contains(v); })) {
      result.insert(&op);
      reached.insert(op.result_begin(), op.result_end());
    }
  return result;
}

SmallVector<Value> training::buildGradients(OpBuilder &builder, Value loss, ValueRange wanted) {
  Block &block = *loss.getParentBlock();
  llvm::DenseSet<Operation *> active = dependents(block, wanted);
  SmallVector<Operation *> forward;
  for (Operation &op : block) {
    if (active.contains(&op))
      forward.push_back(&op);
    if (&op == loss.getDefiningOp())
      break;
  }
  llvm::DenseMap<Value, GradientSum> gradients;
  GraphBuilder b(builder, withRole(loss.getLoc(), "grad"));
  auto gradientOf = [&](Value value) {
    auto it = gradients.find(value);
    return it == gradients.end() ? Value() : it->second.total(b);
  };
  gradients[loss].add(b, b.splatLike(loss, 1));
  for (Operation *op : llvm::reverse(forward)) {
    auto differentiable = dyn_cast<GradientInterface>(op);
    b.setLoc(withRole(op->getLoc(), "grad"));
    SmallVector<Value> incoming;
    for (Value result : op->getResults())
      incoming.push_back(gradientOf(result));
    if (!differentiable || llvm::none_of(incoming, [](Value v) { return (bool)v; }))
      continue;
    SmallVector<Value> outgoing = differentiable.buildGradient(b, incoming);
    for (auto [operand, gradient] : llvm::zip_first(op->getOperands(), outgoing)) {
      Operation *producer = operand.getDefiningOp();
      bool needed = producer ? active.contains(producer) : llvm::is_contained(wanted, operand);
      if (gradient && needed)
        gradients[operand].add(b, gradient);
    }
  }
  llvm::DenseMap<Value, Operation *> firstUser;
  for (Operation *op : forward)
    for (Value operand : op->getOperands())
      firstUser.try_emplace(operand, op);
  SmallVector<Value> result;
  for (Value value : wanted) {
    if (Operation *user = firstUser.lookup(value)) // what joins contributions belongs to this node
      b.setLoc(withRole(user->getLoc(), "grad"));
    result.push_back(gradientOf(value));
  }
  return result;
}
