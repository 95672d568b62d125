#include "compiler/Import/Operators.h"

using namespace mlir;
using namespace divisi::compiler;
using namespace divisi::graph;
using N = NodeImporter;

Results importBatchNormalization(NodeImporter &n);

/// Makes the running statistics of a node buffers, which are not trained.
static void makeBuffer(N &n, Value statistics) {
  if (auto *argument = n.model.signature().find(statistics); argument && argument->role == Signature::Role::parameter)
    argument->role = Signature::Role::buffer, argument->isFrozen = false;
}

/// momentum * old + (1 - momentum) * batch. If the old value is a buffer, the step renews it.
static Value runningAverage(N &n, Value old, Value batch, double momentum) {
  auto *argument = n.model.signature().find(old);
  bool isBuffer = argument && argument->role == Signature::Role::buffer;
  Value from = isBuffer && n.model.renewed(old) ? n.model.renewed(old) : old;
  Value added = n.scale(n.cast(batch, n.elementOf(old)), 1 - momentum);
  Value next = n.add(n.scale(from, momentum), added);
  if (isBuffer)
    n.model.renewed(old) = next;
  return next;
}

/// (x - mean) / sqrt(variance + epsilon) * scale + bias with given statistics.
static Value inference(N &n, Value x, double epsilon) {
  auto channel = [&](Value v) { return n.along(v, shapeOf(x), 1); };
  Value inverse = n.op<RsqrtOp>(n.addConst(n.in(4), epsilon));
  Value scale = n.mul(n.cast(n.in(1), n.elementOf(n.in(4))), inverse);
  Value centered = n.sub(x, n.cast(channel(n.in(3)), n.elementOf(x)));
  Value scaled = n.mul(centered, n.cast(channel(scale), n.elementOf(x)));
  return n.add(scaled, n.cast(channel(n.in(2)), n.elementOf(x)));
}

/// Whether a node in inference form is in training form in the module. torch.export writes inference form even for a
/// module in train(), and notes which one the call has.
static bool trainsByNotes(N &n) {
  CallNotes call(n.node);
  if (call.isTrainingBatchNorm())
    return true;
  if (StringRef(call.target).contains("_no_training") && n.model.isInTraining())
    return false; // the module is in train(), and this part of it in eval()
  n.model.inferenceBatchNorms.push_back(describe(n.node, n.name));
  return n.model.options.batchNormTraining;
}

Results importBatchNormalization(NodeImporter &n) {
  Value x = n.in(0);
  if (n.rankOf(x) < 2)
    fail("its input ", shapeText(shapeOf(x)), " has no channels");
  for (int i = 1; i < 5; ++i)
    if (shapeOf(n.in(i)) != ArrayRef<int64_t>(shapeOf(x)[1]) || !n.isFloat(n.in(i)))
      fail("input '", n.node.input(i), "' does not have one number for each of ", shapeOf(x)[1], " channels");
  if (!n.isFloat(x) || n.elementOf(n.in(3)) != n.elementOf(n.in(4)))
    fail("its element types do not fit together");
  double epsilon = n.number("epsilon", 1e-5f), momentum = n.number("momentum", 0.9f);
  makeBuffer(n, n.in(3));
  makeBuffer(n, n.in(4));
  // Before opset 14, a second output means training mode.
  bool training = n.opset >= 14 ? n.integer("training_mode", 0) != 0 : n.wants(1);
  if (!training && !n.model.options.forwardOnly)
    training = trainsByNotes(n);
  if (!training)
    return {inference(n, x, epsilon)};
  Type element = n.elementOf(x);
  Value scale = n.cast(n.in(1), element), bias = n.cast(n.in(2), element);
  Value running[] = {n.in(3), n.in(4)};
  Operation *op = n.create<BatchNormOp>(TypeRange{x.getType(), scale.getType(), scale.getType()}, x, scale, bias,
                                        ValueRange{n.cast(running[0], element), n.cast(running[1], element)}, 1,
                                        llvm::APFloat(epsilon), IntegerAttr(), /*sample=*/n.model.isFromPyTorch());
  Value mean = runningAverage(n, running[0], op->getResult(1), momentum);
  Value variance = runningAverage(n, running[1], op->getResult(2), momentum);
  return {op->getResult(0), mean, variance, n.cast(op->getResult(1), n.elementOf(running[0])),
          n.cast(op->getResult(2), n.elementOf(running[1]))};
}
