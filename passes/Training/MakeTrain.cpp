#include "dialects/Graph/Nodes.h"
#include "dialects/Graph/WhenNeeded.h"
#include "passes/Training/Autodiff.h"
#include "passes/Training/LossScaling.h"
#include "passes/Training/Optimizer.h"
#include "passes/Training/ParameterGroups.h"
#include "passes/Training/Passes.h"
#include "passes/Training/StepFunction.h"
#include "passes/Training/UpdateParts.h"

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
  SmallVector<int64_t> shape; // in the model's file
  SmallVector<Value> moments;
  SmallVector<NamedAttribute> ofMoments; // attributes of its optimizer state beside name and role
  ParameterGroup group;
};

/// The update rule of a group of parameters.
struct Rule {
  std::unique_ptr<Optimizer> optimizer;
  Optimizer::Shared shared;
};

/// The square of the gradients' global norm.
Value globalSquare(GraphBuilder &b, MutableArrayRef<Trained> trained) {
  Value sum;
  bool wide = llvm::any_of(trained, [](Trained &t) { return tensorType(t.gradient).getElementType().isF64(); });
  for (Trained &t : trained)
    sum = b.addMaybe(sum, sumOfSquares(b, t.gradient, wide));
  return sum;
}

/// torch.nn.utils.clip_grad_norm_: all gradients times min(1, limit / (global norm + 1e-6)).
void clip(GraphBuilder &b, MutableArrayRef<Trained> trained, double limit) {
  Value total = b.addConst(b.op<SqrtOp>(globalSquare(b, trained)), 1e-6);
  Value one = b.splatLike(total, 1);
  Value factor = b.op<MinOp>(b.div(b.splatLike(total, limit), total), one);
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
    if (!findOptimizer(optimizer)) {
      loss.emitError("unknown optimizer '") << optimizer << "', expected " << optimizerNames();
      return signalPassFailure();
    }
    if (failed(build(loss)))
      return signalPassFailure();
    loss.erase();
  }

  OptimizerSettings settingsOf(const ParameterGroup &group) {
    OptimizerSettings settings{optimizer,   momentum,   alpha,    beta1,    beta2,   eps, trustCoefficient,
                               weightDecay, beta2Decay, nesterov, centered, matchRms, gradientFactor, decayFactor, decayPost, countsThis};
    if (group.byAdamw)
      settings.optimizer = "adamw";
    return settings;
  }

  /// The attribute of optimizer state that says the rule of its parameter.
  DictionaryAttr describeRule(const ParameterGroup &group) {
    NamedAttrList rule(toAttr(settingsOf(group), &getContext()));
    Builder b(&getContext());
    rule.set("decays", b.getBoolAttr(group.decays));
    rule.set("lr_factor", b.getF64FloatAttr(group.lrFactor));
    return rule.getDictionary(&getContext());
  }

  /// The rule of a group, with what the group's parameters share.
  Rule ruleOf(GraphBuilder &b, const ParameterGroup &group, const Optimizer::Shared &ofAll) {
    Rule rule{Optimizer::create(settingsOf(group), group.decays), ofAll};
    if (group.lrFactor != 1)
      rule.shared.learningRate = b.scale(ofAll.learningRate, group.lrFactor);
    rule.optimizer->prepare(b, rule.shared);
    return rule;
  }

  /// Assigns the groups of the flags.
  LogicalResult assignGroups(func::FuncOp loss, SmallVector<Trained> &trained) {
    std::vector<std::string> names;
    for (Trained &t : trained)
      names.push_back(t.name.str());
    auto groups = groupParameters(names, llvm::to_vector(noDecay), llvm::to_vector(lrFactors), llvm::to_vector(byAdamw));
    if (!groups)
      return loss.emitError(llvm::toString(groups.takeError()));
    for (Trained &t : trained)
      if (auto it = groups->find(t.name.str()); it != groups->end())
        t.group = it->second;
    return success();
  }

  LogicalResult build(func::FuncOp loss) {
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
          trained.push_back({name, mapping.lookup(argument), {}, modelShape(loss, argument), {}, describeMoments(loss, argument, name), {}});
    if (failed(assignGroups(loss, trained)))
      return failure();
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

    const Location update = NameLoc::get(builder.getStringAttr("update"));
    GraphBuilder b(builder, update);
    SmallVector<std::pair<StringAttr, Value>> norms;
    SmallVector<Value *> gradients;
    for (Trained &t : trained)
      gradients.push_back(&t.gradient);
    if (scaling)
      scaling->unscale(b, gradients);
    if (markGradients)
      for (Trained &t : trained)
        t.gradient = AccumulateOp::create(builder, withRole(t.parameter.getLoc(), "accumulate"), t.gradient);
    if (scaling)
      scaling->decide(b, markGradients);
    for (Trained &t : trained) {
      b.setLoc(withRole(t.parameter.getLoc(), "norm"));
      norms.push_back({t.name, norm(b, t.gradient)});
    }
    b.setLoc(update);
    Value square = noiseScale ? globalSquare(b, trained) : Value();
    if (clipNorm > 0)
      clip(b, trained, clipNorm);
    Value number = b.addConst(count, 1);
    shared.step = scaling ? scaling->effective(b, number) : number;
    std::map<ParameterGroup, Rule> rules;
    auto renew = [&](Value renewed, Value before, StringAttr name) {
      step.addResult(scaling ? scaling->choose(b, renewed, before) : renewed, names::renews, name);
    };
    for (Trained &t : trained)
      if (!rules.count(t.group))
        rules.emplace(t.group, ruleOf(b, t.group, shared));
    for (Trained &t : trained) {
      b.setLoc(withRole(t.parameter.getLoc(), "update"));
      if (describeRules)
        t.ofMoments.push_back(builder.getNamedAttr("rule", describeRule(t.group)));
      const auto &[rule, shared] = rules.at(t.group);
      auto addMoment = [&](StringRef moment, ArrayRef<int64_t> shape) {
        SmallVector<NamedAttribute> more = t.ofMoments;
        if (shape != shapeOf(t.parameter)) // then it is not a reshape of the model's tensor
          llvm::erase_if(more, [](NamedAttribute entry) { return entry.getName() == "shape"; });
        more.push_back(builder.getNamedAttr("moment", builder.getStringAttr(moment)));
        return step.addState(tensorType(t.parameter).clone(shape), (t.name.getValue() + "." + moment).str(), "moment",
                             t.parameter.getLoc(), more);
      };
      Value parameter = t.parameter, gradient = t.gradient;
      if (rule->isOfMatrices()) {
        parameter = b.reshape(parameter, t.shape);
        gradient = b.reshape(gradient, t.shape);
      }
      for (const Optimizer::Moment &moment : rule->momentsOf(shapeOf(parameter)))
        t.moments.push_back(addMoment(moment.name, moment.shape));
      SmallVector<Value> before = t.moments;
      Value renewed = b.reshape(rule->update(b, shared, parameter, gradient, t.moments), shapeOf(t.parameter));
      renew(renewed, t.parameter, t.name);
      for (auto [value, old] : llvm::zip(t.moments, before))
        renew(value, old, step.nameOf(old));
      if (ema > 0) {
        Value old = addMoment(averageMoment, shapeOf(t.parameter));
        renew(average(b, old, renewed, shared.step), old, step.nameOf(old));
      }
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
    if (square)
      step.addReport(square, gradSquareBig);
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

  static SmallVector<int64_t> modelShape(func::FuncOp loss, BlockArgument parameter) {
    auto shape = loss.getArgAttrOfType<DenseI64ArrayAttr>(parameter.getArgNumber(), names::modelShape);
    return SmallVector<int64_t>(shape ? shape.asArrayRef() : shapeOf(parameter));
  }

  /// torch.optim.swa_utils.get_ema_multi_avg_fn, which the first step sets to the parameter.
  Value average(GraphBuilder &b, Value before, Value parameter, Value step) const {
    Value moved = lerp(b, before, parameter, 1 - ema);
    Value isFirst = b.compareConst(Predicate::eq, step, 1);
    return b.select(b.broadcast(isFirst, shapeOf(parameter), {}), parameter, moved);
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
      t.group.decays &= (bool)gradient; // PyTorch's optimizers leave such a parameter as it is
    }
    if (!any)
      return loss.emitError("the loss depends on no parameter that trains");
    return success();
  }

  void report(StepFunction &step, OpBuilder &builder, Value lossValue, ArrayRef<std::pair<StringAttr, Value>> norms) {
    auto when = [&](int64_t bits) { return builder.getNamedAttr("when", builder.getI64IntegerAttr(bits)); };
    step.addReport(lossValue, "loss");
    if (classification) {
      OpBuilder early(classification->getContext()); // the logits need not outlive their gradient
      early.setInsertionPointAfter(classification);
      GraphBuilder graph(early, classification.getLoc());
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
