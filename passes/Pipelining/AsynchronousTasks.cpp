// What tasks of an asynchronous schedule read: the weights of their minibatch, and the gradients of their stage.
#include "dialects/Dist/StageAxes.h"
#include "dialects/Graph/GraphBuilder.h"
#include "dialects/Graph/Nodes.h"
#include "passes/Pipelining/TaskSplitter.h"
#include "passes/Training/LossScaling.h"
#include "passes/Training/Optimizer.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::pipelining;

using Kind = dist::TaskKind;
using planning::pipeline::Staleness;

/// Scalar arguments of tasks of an asynchronous schedule: the number of their minibatch in a round of the replicas, and
/// the number of updates of their stage that are still to come before its own.
static constexpr llvm::StringLiteral turnArgument = "turn", pendingUpdates = "pending_updates";

Value TaskSplitter::ofMinibatch(TaskKey key, BlockArgument argument) {
  TaskWriter &writer = task(key);
  std::string name = nameOfArgument(argument).str();
  TaskKey forward = {Kind::forward, key.number}, stash = {Kind::stash, key.number};
  if (function.getArgAttr(argument.getArgNumber(), graph::names::input)) // the newest minibatch's
    return key == forward ? writer.takeArgument(argument) : take(forward, key, argument);
  StringRef role = roleOf(argument);
  if (role == "step" && (key == forward || options.replicasOf(deviceOf(key)) > 1))
    // The updates that are still to come are added; for replicas in turn it counts the minibatches of whole rounds.
    return numberOf(key, argument, key == forward ? pendingUpdates : turnArgument);
  if (!isOwned(argument))
    return writer.takeArgument(argument);
  int owner = dist::stageOf(argument);
  bool scaling = role == training::scalingRole;
  if (scaling && !key.once() && key != forward)
    return take(forward, key, argument); // a minibatch has one scale
  if (options.deviceOf(owner) != deviceOf(key)) {
    // The owner sends the version that its forward task of the same minibatch reads, and receives the gradient.
    if ((role == "parameter" || scaling) && owner < key.number) {
      Value version = receive({Kind::forward, owner}, key, argument);
      writer.mapping.map(argument, version);
      return version;
    }
    fail("'" + name + "', which " + (role == "parameter" ? "belongs to a later stage" : "is no parameter") +
         ", is used on several stages, which cannot keep it equal: another --cut, or a synchronous schedule");
    return writer.takeArgument(argument);
  }
  bool update = key.kind == Kind::finish || key == stash;
  if (update || role != "parameter")
    return writer.takeArgument(argument);
  switch (options.staleness) {
  case Staleness::latest:
    return writer.takeArgument(argument);
  case Staleness::stashed:
    return key == forward || options.lagOf(deviceOf(key)) == 0 ? writer.takeArgument(argument)
                                                               : take(forward, key, argument);
  case Staleness::verticalSync:
    return take(stash, key, argument);
  case Staleness::predicted:
    return predict(key, argument);
  }
  return {};
}

Value TaskSplitter::numberOf(TaskKey key, BlockArgument step, StringRef more) {
  TaskWriter &writer = task(key);
  Value added = writer.takeScalar(more, step.getLoc()), updates = writer.takeArgument(step);
  OpBuilder builder = OpBuilder::atBlockEnd(&writer.block());
  Value number = graph::GraphBuilder(builder, step.getLoc()).add(updates, added);
  writer.mapping.map(step, number);
  return number;
}

void TaskSplitter::findOfInputs() {
  for (BlockArgument argument : block.getArguments())
    if (function.getArgAttr(argument.getArgNumber(), graph::names::input))
      ofInputs.insert(argument);
  for (Operation &op : block.without_terminator())
    if (parts.at(&op) == Part::anywhere && llvm::any_of(op.getOperands(), [&](Value x) { return ofInputs.contains(x); }))
      for (Value result : op.getResults())
        if (op.getNumOperands() > 1 || graph::bytesOf(result.getType()) <= graph::bytesOf(op.getOperand(0).getType()))
          ofInputs.insert(result);
}

TaskKey TaskSplitter::startFor(TaskKey key) {
  bool ofNext = key.kind == Kind::finish || (key.kind == Kind::backward && options.lagOf(deviceOf(key)) > 0);
  return {ofNext ? Kind::stash : Kind::start, deviceOf(key)};
}

Value TaskSplitter::ofBatch(TaskKey key, Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  // When tasks behind the stash run, the inputs may be those of the next batch.
  if (startFor(key).kind == Kind::stash && ofInputs.contains(value))
    return take({Kind::forward, key.number}, key, value);
  StringRef role = argument ? roleOf(argument) : "";
  if (role == "step" && (key.kind == Kind::start || key.kind == Kind::forward))
    return numberOf(key, argument, pendingUpdates);
  const bool isPass = key.kind == Kind::forward || key.kind == Kind::backward || key.kind == Kind::stash;
  if (role == "parameter" && isPass && isRenewed(argument) && options.deviceOf(dist::stageOf(argument)) == deviceOf(key))
    return take({Kind::start, deviceOf(key)}, key, argument);
  return {};
}

bool TaskSplitter::isRenewed(BlockArgument argument) {
  return graph::findRenewal(function, nameOfArgument(argument)).has_value();
}

bool TaskSplitter::isOfOtherUpdate(TaskKey key, Value value) {
  Operation *producer = value.getDefiningOp();
  return producer && key.once() && parts.at(producer) == Part::finish && !parts.isAnywhere(value) &&
         deviceOf(keyOf(producer)) != deviceOf(key);
}

Value TaskSplitter::ofOwnStage(TaskKey key, Value value) {
  Operation *op = value.getDefiningOp();
  TaskWriter &writer = task(key);
  if (cast<RankedTensorType>(value.getType()).getRank() > 0 && !isa<graph::BroadcastOp>(op)) {
    // Parameters of several stages may have a gradient in common.
    auto isOnStage = [&](Attribute axis) {
      dist::StageAxes axes = dist::StageAxes::of(function);
      return axes.empty() || axes.has(deviceOf(key), cast<StringAttr>(axis).getValue());
    };
    auto over = op->getAttrOfType<ArrayAttr>("axes");
    bool isCollective = over && isa<dist::DistDialect>(op->getDialect()) && op->getNumOperands() == 1;
    if (isCollective && llvm::all_of(over, isOnStage))
      return again(key, value);
    bool isClipped = llvm::any_of(op->getOperands(), [&](Value factor) {
      auto broadcast = factor.getDefiningOp<graph::BroadcastOp>();
      return broadcast && parts.at(broadcast) == Part::finish && !parts.isAnywhere(broadcast.getOperand());
    });
    if (parts.isCheap(op) && !isClipped)
      return again(key, value);
    fail("the update of one stage needs '" + graph::pathOf(value.getLoc()) + "' of the update of another one" +
         (isClipped ? ", scaled by a number of that one" : "") + ": another --cut, or a synchronous schedule");
    Value nowhere = writer.takeHeld(value.getType(), "", dist::held::step, value.getLoc()); // the program is not compiled
    writer.mapping.map(value, nowhere);
    return nowhere;
  }
  auto sum = dyn_cast<graph::ReduceSumOp>(op);
  Value squares = sum ? sum->getOperand(0) : Value();
  if (auto masked = squares ? squares.getDefiningOp<graph::SelectOp>() : graph::SelectOp())
    squares = masked.getLhs(); // without padding
  auto square = squares ? squares.getDefiningOp<graph::MulOp>() : graph::MulOp();
  if (!square || square.getLhs() != square.getRhs())
    return again(key, value);
  OpBuilder builder = OpBuilder::atBlockEnd(&writer.block());
  Value nothing = graph::GraphBuilder(builder, op->getLoc()).splatLike(value, 0);
  writer.mapping.map(value, nothing);
  return nothing;
}

Value TaskSplitter::ofRound(TaskKey key, Value value) {
  TaskWriter &writer = task(key);
  auto type = cast<RankedTensorType>(value.getType());
  if (options.replicasOf(deviceOf(key)) == 1)
    return value;
  Location loc = value.getLoc();
  Value mine = writer.takeScalar("axis_index." + turnAxisOf(writer), loc), last = writer.takeScalar(turnArgument, loc);
  OpBuilder builder = OpBuilder::atBlockEnd(&writer.block());
  graph::GraphBuilder b(builder, loc);
  Value takesPart = b.broadcast(b.compare(graph::Predicate::le, mine, last), type.getShape(), {});
  Value sum = overReplicas(writer, b.keepWhere(takesPart, value), dist::ReductionKind::sum);
  if (!isa<FloatType>(type.getElementType()))
    return sum;
  Value count = b.cast(b.addConst(last, 1), type.getElementType());
  return b.div(sum, b.broadcast(count, type.getShape(), {}));
}

Value TaskSplitter::take(TaskKey from, TaskKey key, Value value) {
  Value result = pass(from, key, value);
  task(key).mapping.map(value, result);
  return result;
}

std::pair<llvm::StringMap<BlockArgument>, DictionaryAttr> TaskSplitter::optimizerOf(BlockArgument parameter) {
  llvm::StringMap<BlockArgument> moments;
  DictionaryAttr rule;
  for (BlockArgument argument : block.getArguments()) {
    auto state = function.getArgAttrOfType<DictionaryAttr>(argument.getArgNumber(), graph::names::state);
    auto of = state ? state.getAs<StringAttr>("of") : StringAttr();
    auto moment = state ? state.getAs<StringAttr>("moment") : StringAttr();
    if (!of || !moment || of.getValue() != nameOfArgument(parameter))
      continue;
    moments[moment.getValue()] = argument;
    rule = state.getAs<DictionaryAttr>("rule");
  }
  return {moments, rule};
}

Value TaskSplitter::updatesSoFar(TaskKey key) {
  for (BlockArgument argument : block.getArguments())
    if (roleOf(argument) == "step") {
      get(key, argument); // what else reads it reads the minibatch's number
      Value updates = task(key).takeArgument(argument);
      if (BlockArgument skipped = decisions.skipped(deviceOf(key))) {
        Value newest = task(key).takeArgument(skipped);
        OpBuilder builder = OpBuilder::atBlockEnd(&task(key).block());
        updates = graph::GraphBuilder(builder, argument.getLoc()).sub(updates, newest);
      }
      return updates;
    }
  return {};
}

Value TaskSplitter::predict(TaskKey key, BlockArgument argument) {
  TaskWriter &writer = task(key);
  Value weight = writer.takeArgument(argument);
  if (!isRenewed(argument)) // frozen
    return weight;
  auto [moments, rule] = optimizerOf(argument);
  auto decays = rule ? rule.getAs<BoolAttr>("decays") : BoolAttr();
  auto optimizer = rule ? training::Optimizer::create(training::settingsOf(rule), !decays || decays.getValue()) : nullptr;
  SmallVector<Value> state;
  for (StringRef moment : optimizer ? optimizer->moments() : SmallVector<StringRef>())
    if (auto it = moments.find(moment); it != moments.end() && it->second.getType() == argument.getType())
      state.push_back(get(key, it->second));
  training::Optimizer::Shared shared;
  shared.step = updatesSoFar(key);
  for (BlockArgument other : block.getArguments())
    if (isScalar(other, "learning_rate"))
      shared.learningRate = get(key, other);
  int device = deviceOf(key), updates = device / 2 + (key.kind == Kind::forward ? options.lagOf(device) : 0);
  Value predicted;
  if (optimizer && shared.step && shared.learningRate && state.size() == optimizer->moments().size()) {
    OpBuilder builder = OpBuilder::atBlockEnd(&writer.block());
    graph::GraphBuilder b(builder, argument.getLoc());
    shared.step = b.op<graph::MaxOp>(shared.step, b.splatLike(shared.step, 1)); // before the first update all state is 0
    if (auto factor = rule.getAs<FloatAttr>("lr_factor"); factor && factor.getValueAsDouble() != 1)
      shared.learningRate = b.scale(shared.learningRate, factor.getValueAsDouble());
    predicted = optimizer->predict(b, shared, weight, state, updates);
  }
  if (!predicted) {
    fail("predicted weights follow what the optimizer keeps of earlier gradients, and it keeps nothing of that kind for '" +
         nameOfArgument(argument) + "': use --optimizer adam or adamw, sgd with --momentum M, or another --staleness");
    return weight;
  }
  if (updates > 0)
    writer.mapping.map(argument, predicted);
  return updates > 0 ? predicted : weight;
}

bool TaskSplitter::isAgain(TaskKey from, TaskKey key, Operation *op) {
  if (!op || isa<dist::TransferOp>(op)) // what crosses to other axes comes from the stage that has it
    return false;
  bool otherWeights = options.staleness == Staleness::latest || options.staleness == Staleness::predicted;
  return from.once() ? deviceOf(from) != deviceOf(key) && parts.isCheap(op)
                     : (otherWeights || key.once()) && key != from && parts.isOfState(op);
}
