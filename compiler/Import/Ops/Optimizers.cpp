// Updates of optimizers as nodes of a graph: ai.onnx.preview.training.
#include "compiler/Import/Operators.h"
#include "compiler/Import/OptimizerNodes.h"
#include "passes/Training/Optimizer.h"

using namespace mlir;
using namespace divisi::compiler;
using namespace divisi::graph;
using N = NodeImporter;

/// The new values of all tensors, then each state of all. Inputs are the learning rate, the number of updates before, the
/// tensors, their gradients, and each state of all of them.
static Results importUpdates(N &n) {
  auto optimizer = divisi::training::Optimizer::create(settingsOfNode(n.node));
  const int64_t states = optimizer->moments().size(), kinds = 2 + states, count = (n.numInputs() - 2) / kinds;
  if (count < 1 || count * kinds != n.numInputs() - 2)
    fail("its ", n.numInputs(), " inputs are not a learning rate, a step, and ", kinds, " for each tensor");
  divisi::training::Optimizer::Shared shared;
  shared.learningRate = n.reshape(n.in(0), {});
  if (!n.isFloat(shared.learningRate))
    fail("its learning rate is of the type ", n.elementOf(shared.learningRate));
  shared.step = n.addConst(n.cast(n.reshape(n.in(1), {}), n.i64()), 1);
  optimizer->prepare(n, shared);
  Results results(count * (1 + states));
  for (int64_t i = 0; i < count; ++i) {
    auto input = [&](int64_t kind) { return n.in(2 + kind * count + i); };
    Value x = input(0), gradient = input(1);
    if (!n.isFloat(x))
      fail("it updates tensors of the type ", n.elementOf(x));
    if (gradient.getType() != x.getType())
      fail("the gradient ", gradient.getType(), " is not of the tensor's type ", x.getType());
    SmallVector<Value> moments;
    for (int64_t s = 0; s < states; ++s)
      if (moments.push_back(input(2 + s)); moments.back().getType() != x.getType())
        fail("the state ", moments.back().getType(), " is not of the tensor's type ", x.getType());
    results[i] = optimizer->update(n, shared, x, gradient, moments);
    for (auto [s, moment] : llvm::enumerate(moments))
      results[(s + 1) * count + i] = moment;
  }
  return results;
}

llvm::ArrayRef<Operator> divisi::compiler::optimizerOperators() {
  static constexpr Operator rows[] = {
      {"ai.onnx.preview.training.Adagrad", 1, newest, importUpdates},
      {"ai.onnx.preview.training.Adam", 1, newest, importUpdates},
      {"ai.onnx.preview.training.Momentum", 1, newest, importUpdates},
  };
  return rows;
}
