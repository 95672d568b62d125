#include "dialects/Graph/Nodes.h"
#include "passes/Training/Autodiff.h"
#include "passes/Training/LossScaling.h"
#include "passes/Training/Optimizer.h"
#include "passes/Training/Passes.h"
#include "passes/Training/StepFunction.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::graph;

namespace divisi::training {
#define GEN_PASS_DEF_MAKETRAINPASS
#include "passes/Training/Passes.h.inc"

namespace {

/// A trainable parameter while the step is built.
struct Trained {
  StringAttr name;
  Value parameter, gradient;
  SmallVector<Value> moments;
  SmallVector<NamedAttribute> ofMoments; // attributes of its optimizer state beside name and role
};

/// The sum of the squares of all elements: in f64 if `wide`, else in f32; 16 bits would overflow.
Value sumOfSquares(GraphBuilder &b, Value x, bool wide) {
  x = b.cast(x, wide ? Type(b.getBuilder().getF64Type()) : b.getBuilder().getF32Type());
  return b.sumAll(b.mul(x, x));
}

bool isDouble(Value x) { return tensorType(x).getElementType().isF64(); }

/// The L2 norm of all elements.
Value norm(GraphBuilder &b, Value x) { return b.op<SqrtOp>(sumOfSquares(b, x, isDouble(x))); }

/// torch.nn.utils.clip_grad_norm_: all gradients times min(1, limit / (global norm + 1e-6)).
void clip(GraphBuilder &b, MutableArrayRef<Trained> trained, double limit) {
  Value sum;
  bool wide = llvm::any_of(trained, [](Trained &t) { return isDouble(t.gradient); });
  for (Trained &t : trained)
    sum = b.addMaybe(sum, sumOfSquares(b, t.gradient, wide));
  Value total = b.addConst(b.op<SqrtOp>(sum), 1e-6);
  Value factor = b.op<MinOp>(b.div(b.splatLike(total, limit), total), b.splatLike(total, 1));
  for (Trained &t : trained)
    t.gradient = b.mul(
        t.gradient, b.broadcast(b.cast(factor, tensorType(t.gradient).getElementType()), shapeOf(t.gradient), {}));
}

struct MakeTrainPass : impl::MakeTrainPassBase<MakeTrainPass> {
  using MakeTrainPassBase::MakeTrainPassBase;

  void runOnOperation() final {
    auto loss = getOperation().lookupSymbol<func::FuncOp>("loss");
    if (!loss) {
      getOperation().emitError("expected a function @loss");
      return signalPassFailure();
    }
    auto rule = Optimizer::create({optimizer, momentum, nesterov, beta1, beta2, eps, weightDecay});
    if (!rule) {
      loss.emitError("unknown optimizer '") << optimizer << "', expected sgd, adam or adamw";
      return signalPassFailure();
    }
    if (failed(build(loss, *rule)))
      return signalPassFailure();
    loss.erase();
  }

  LogicalResult build(func::FuncOp loss, const Optimizer &rule) {
    OpBuilder builder(loss);
    Location loc = loss.getLoc();
    StepFunction step(builder, loc, "train");
    IRMapping mapping;
    addModelArguments(step, loss, mapping);
    auto scalar = [&](Type type) { return RankedTensorType::get({}, type); };
    Type i64 = builder.getI64Type(), f32 = builder.getF32Type();
    Value count = step.addState(scalar(i64), "divisi.step", "step", loc);
    Value seed = step.addState(scalar(i64), "divisi.seed", "seed", loc);
    Optimizer::Shared shared;
    NamedAttribute rate = builder.getNamedAttr(names::scalar, builder.getStringAttr("learning_rate"));
    std::optional<LossScaling> scaling;
    if (lossScaling)
      scaling.emplace(step, loc);
    shared.learningRate = step.addArgument(scalar(f32), builder.getDictionaryAttr(rate), loc);

    builder.setInsertionPointToEnd(&step.getBody());
    cloneForward(loss, builder, mapping, seed, count);
    SmallVector<Trained> trained;
    for (BlockArgument argument : loss.getArguments())
      if (auto name = loss.getArgAttrOfType<StringAttr>(argument.getArgNumber(), names::parameter))
        if (!loss.getArgAttr(argument.getArgNumber(), names::frozen))
          trained.push_back({name, mapping.lookup(argument), {}, {}, describeMoments(loss, argument, name)});
    Value lossValue;
    Operation *terminator = loss.getBody().front().getTerminator();
    for (auto [i, value] : llvm::enumerate(terminator->getOperands()))
      if (loss.getResultAttr(i, names::loss))
        lossValue = mapping.lookup(value);
    if (!lossValue)
      return loss.emitError("expected a result with the attribute 'graph.loss'");
    GraphBuilder lossBuilder(builder, lossValue.getLoc());
    if (failed(differentiate(loss, builder, scaling ? scaling->scale(lossBuilder, lossValue) : lossValue, trained)))
      return failure();

    GraphBuilder b(builder, NameLoc::get(builder.getStringAttr("update")));
    SmallVector<std::pair<StringAttr, Value>> norms;
    SmallVector<Value *> gradients;
    for (Trained &t : trained) {
      if (markGradients)
        t.gradient = b.op<AccumulateOp>(t.gradient);
      gradients.push_back(&t.gradient);
    }
    if (scaling)
      scaling->unscale(b, gradients);
    for (Trained &t : trained)
      norms.push_back({t.name, norm(b, t.gradient)});
    if (clipNorm > 0)
      clip(b, trained, clipNorm);
    Value number = b.addConst(count, 1);
    shared.step = scaling ? scaling->effective(b, number) : number;
    rule.prepare(b, shared);
    auto renew = [&](Value renewed, Value before, StringAttr name) {
      step.addResult(scaling ? scaling->choose(b, renewed, before) : renewed, names::renews, name);
    };
    for (Trained &t : trained) {
      b.setLoc(withRole(t.parameter.getLoc(), "update"));
      for (StringRef moment : rule.moments()) {
        SmallVector<NamedAttribute> more = t.ofMoments;
        more.push_back(builder.getNamedAttr("moment", builder.getStringAttr(moment)));
        t.moments.push_back(step.addState(t.parameter.getType(), (t.name.getValue() + "." + moment).str(), "moment",
                                          t.parameter.getLoc(), more));
      }
      SmallVector<Value> before = t.moments;
      renew(rule.update(b, shared, t.parameter, t.gradient, t.moments), t.parameter, t.name);
      for (auto [value, old] : llvm::zip(t.moments, before))
        renew(value, old, step.nameOf(old));
    }
    for (auto [i, value] : llvm::enumerate(terminator->getOperands()))
      if (auto name = loss.getResultAttrOfType<StringAttr>(i, names::renews)) {
        Value before = bufferOf(loss, name);
        if (!before)
          return loss.emitError("result #") << i << " renews '" << name.getValue() << "', which is no buffer";
        renew(mapping.lookup(value), mapping.lookup(before), name);
      }
    step.addResult(number, names::renews, step.nameOf(count));
    if (scaling)
      scaling->renew(b, step);
    report(step, builder, lossValue, norms);
    addChecks(step, loss, mapping);
    step.finish();
    return success();
  }

  /// The argument of @loss that a buffer's result renews; null if there is none.
  static Value bufferOf(func::FuncOp loss, StringAttr name) {
    for (BlockArgument argument : loss.getArguments())
      if (loss.getArgAttr(argument.getArgNumber(), names::buffer) == name)
        return argument;
    return nullptr;
  }

  static SmallVector<NamedAttribute> describeMoments(func::FuncOp loss, BlockArgument parameter, StringAttr name) {
    Builder builder(loss);
    SmallVector<NamedAttribute> attributes = {builder.getNamedAttr("of", name)};
    if (Attribute shape = loss.getArgAttr(parameter.getArgNumber(), names::modelShape))
      attributes.push_back(builder.getNamedAttr("shape", shape));
    return attributes;
  }

  /// Clones the forward pass and supplies dropout's seed and step. Remembers the first classification loss.
  void cloneForward(func::FuncOp loss, OpBuilder &builder, IRMapping &mapping, Value seed, Value count) {
    for (Operation &op : loss.getBody().front().without_terminator()) {
      Operation *copy = builder.clone(op, mapping);
      if (auto random = dyn_cast<RandomnessInterface>(copy))
        random.setRandomness({seed, count});
      if (auto candidate = dyn_cast<AccuracyInterface>(copy); candidate && !classification)
        classification = candidate;
    }
  }

  LogicalResult differentiate(func::FuncOp loss, OpBuilder &builder, Value lossValue, SmallVector<Trained> &trained) {
    if (trained.empty())
      return loss.emitError("no parameter trains: every one is frozen, or the model has none");
    auto walked = loss.walk([](GradientInterface op) {
      return op.hasGradient() ? WalkResult::advance() : (op.emitOpError("has no gradient"), WalkResult::interrupt());
    });
    if (walked.wasInterrupted())
      return failure();
    SmallVector<Value> parameters;
    for (Trained &t : trained)
      parameters.push_back(t.parameter);
    bool any = false;
    for (auto [t, gradient] : llvm::zip(trained, buildGradients(builder, lossValue, parameters))) {
      any |= (bool)gradient;
      GraphBuilder b(builder, t.parameter.getLoc());
      t.gradient = gradient ? gradient : b.splatLike(t.parameter, 0);
    }
    if (!any)
      return loss.emitError("the loss depends on no parameter that trains");
    return success();
  }

  void report(StepFunction &step, OpBuilder &builder, Value lossValue, ArrayRef<std::pair<StringAttr, Value>> norms) {
    auto when = [&](int64_t bits) { return builder.getNamedAttr("when", builder.getI64IntegerAttr(bits)); };
    step.addReport(lossValue, "loss");
    if (classification) {
      GraphBuilder graph(builder, classification.getLoc());
      auto [correct, count] = classification.buildAccuracy(graph);
      step.addReport(correct, "correct", when(graph::whenMetrics));
      step.addReport(count, "count", when(graph::whenMetrics));
    }
    for (auto [name, value] : norms)
      step.addReport(value, "grad_norm", {when(graph::whenGradNorms), builder.getNamedAttr("name", name)});
  }

  AccuracyInterface classification;
};
} // namespace
} // namespace divisi::training
