#include "dialects/Dist/Plan.h"
#include "dialects/Dist/StageAxes.h"
#include "dialects/Graph/GraphBuilder.h"
#include "dialects/Graph/Nodes.h"
#include "dialects/Graph/WhenNeeded.h"
#include "passes/Pipelining/TaskWriter.h"
#include "passes/Planning/ModuleProblem.h"
#include "passes/Planning/Simulator/Schedule.h"

#include "llvm/ADT/SetVector.h"

#include <map>

using namespace mlir;

namespace divisi::pipelining {
#define GEN_PASS_DEF_SPLITTASKSPASS
#include "passes/Pipelining/Passes.h.inc"

using planning::pipeline::ScheduleKind;
using planning::pipeline::ScheduleOptions;
using planning::pipeline::Staleness;
using Step = planning::pipeline::Task;

namespace {

using Kind = dist::TaskKind;

/// The number of a task is its stage. Tasks that run once in a step belong to a device, which may have several stages,
/// and have the device's number.
struct TaskKey {
  Kind kind;
  int number;
  auto operator<=>(const TaskKey &) const = default;
  bool once() const { return dist::isOnce(kind); }
};

/// The scalar argument of tasks of an asynchronous schedule: the number of their minibatch in a round of the replicas.
constexpr llvm::StringLiteral turnArgument = "turn";

class Splitter {
public:
  Splitter(func::FuncOp function, StepParts parts, const ScheduleOptions &options)
      : function(function), parts(std::move(parts)), options(options), block(function.getBody().front()),
        when(graph::whenNeeded(function)) {
    if (options.kind == ScheduleKind::zbH1)
      weights = this->parts.weightGradients(function, [](Operation *op) { return dist::stageOf(op); });
  }

  LogicalResult run(int64_t &nextMessage) {
    messageId = &nextMessage;
    for (Operation &op : block.without_terminator())
      if (parts.at(&op) != Part::anywhere && !isUnused(op))
        write(&op);
    writeResults();
    if (function.getName() == "train")
      keepArguments();
    std::map<std::pair<int, Kind>, TaskWriter *> inOrder; // ordered by stage, which is easier to read
    for (auto &[key, task] : tasks)
      inOrder[{key.number, key.kind}] = &task;
    for (auto &[key, task] : inOrder) {
      task->finish();
      task->task->moveBefore(function);
    }
    writeSchedule();
    function.erase();
    return success(valid);
  }

private:
  int devices() const { return options.devices; }
  bool piped() const { return options.stages() > 1; }
  /// Whether a step consists of tasks of several minibatches.
  bool asynchronous() { return options.asynchronous() && function.getName() == "train"; }
  void fail(const Twine &message) {
    if (valid)
      function.emitError("schedule pipedream: ") << message;
    valid = false;
  }
  int deviceOf(TaskKey key) const { return key.once() ? key.number : options.deviceOf(key.number); }

  TaskKey keyOf(Operation *op) const {
    int stage = dist::stageOf(op);
    if (isa<graph::AccumulateOp>(op)) {
      Operation *producer = op->getOperand(0).getDefiningOp();
      return producer && parts.isTimed(producer) ? keyOf(producer)
                                                 : TaskKey{piped() ? Kind::forward : Kind::step, stage};
    }
    switch (parts.at(op)) {
    case Part::start:
      return {Kind::start, options.deviceOf(stage)};
    case Part::finish:
    case Part::anywhere:
      return {Kind::finish, options.deviceOf(stage)};
    case Part::forward:
      return {piped() ? Kind::forward : Kind::step, stage};
    case Part::backward:
      return {!piped() ? Kind::step : weights.contains(op) ? Kind::weight : Kind::backward, stage};
    }
    return {Kind::finish, 0};
  }

  TaskWriter &task(TaskKey key) {
    auto it = tasks.find(key);
    if (it == tasks.end()) {
      NamedAttrList attributes(function->getDiscardableAttrDictionary());
      Builder b(function);
      attributes.erase(graph::names::microbatches);
      attributes.erase(asynchronousStep);
      attributes.set(dist::names::stage, b.getI64IntegerAttr(deviceOf(key)));
      if (devices() > 1) {
        dist::Mesh mesh;
        if (auto inner = function->getAttrOfType<dist::MeshAttr>(dist::names::partitioned))
          mesh = dist::toMesh(inner);
        if (!options.replicas.empty())
          attributes.set(dist::names::stageAxes,
                         dist::StageAxes::of(function).withTurns(options.replicas, mesh).toAttr(function.getContext()));
        mesh.axes.insert(mesh.axes.begin(), {dist::stageAxis.str(), devices()});
        attributes.set(dist::names::partitioned, dist::toAttr(mesh, function.getContext()));
      }
      it = tasks
               .try_emplace(key, function, key.number, dist::nameOf(key.kind),
                            attributes.getDictionary(function.getContext()))
               .first;
    }
    return it->second;
  }

  /// Whether an operation needs no task of its own, because every task that uses it recomputes it.
  bool isUnused(Operation &op) const {
    bool repeated = llvm::all_of(op.getResults(), [&](Value value) { return parts.isRepeated(value); });
    if (parts.at(&op) == Part::finish)
      return repeated;
    return parts.at(&op) == Part::start && repeated && llvm::none_of(op.getUsers(), [&](Operation *user) {
             return !user->hasTrait<OpTrait::IsTerminator>() && parts.at(user) == Part::start &&
                    !parts.isRepeated(user->getResult(0));
           });
  }

  void write(Operation *op) {
    TaskKey key = keyOf(op);
    TaskWriter &writer = task(key);
    if (auto sum = dyn_cast<graph::AccumulateOp>(op))
      return accumulate(sum, key);
    for (Value operand : op->getOperands())
      get(key, operand);
    OpBuilder builder = OpBuilder::atBlockEnd(&writer.block());
    builder.clone(*op, writer.mapping)->removeAttr(dist::names::stage);
  }

  /// Adds a microbatch's value to the sum so far; the first microbatch's value starts the sum. Replicas that take
  /// microbatches in turn have a sum each.
  void accumulate(graph::AccumulateOp op, TaskKey key) {
    Value x = get(key, op.getX());
    TaskWriter &writer = task(key);
    if (asynchronous())
      return writer.mapping.map(op.getResult(), x);
    std::string name = "sum " + std::to_string(sums.size());
    sums[op] = {key, name};
    if (options.microbatches == 1)
      return writer.leaveHeld(x, name, dist::held::sum, when.lookup(op));
    Value before = writer.takeHeld(op.getType(), name, dist::held::sum, op.getLoc());
    OpBuilder builder = OpBuilder::atBlockEnd(&writer.block());
    graph::GraphBuilder b(builder, op.getLoc());
    int64_t firsts = options.replicasOf(deviceOf(key));
    Value isFirst = b.compareConst(graph::Predicate::lt, get(key, indexArgument()), firsts);
    builder.setInsertionPointToEnd(&writer.block());
    auto combine = op->getAttrOfType<graph::CombineAttr>("combine");
    Value both = !combine                                    ? b.add(before, x)
                 : combine.getValue() == graph::Combine::max ? b.op<graph::MaxOp>(before, x)
                                                             : b.op<graph::MinOp>(before, x);
    Value sum = b.select(b.broadcast(isFirst, graph::shapeOf(x), {}), x, both);
    writer.leaveHeld(sum, name, dist::held::sum, when.lookup(op));
  }

  /// The sum over all microbatches from those of the replicas that take them in turn.
  Value ofAllReplicas(TaskWriter &writer, Value sum, graph::AccumulateOp op) {
    if (options.replicas.empty())
      return sum;
    dist::Mesh mesh = dist::toMesh(writer.task->getAttrOfType<dist::MeshAttr>(dist::names::partitioned));
    auto axis = dist::StageAxes::of(writer.task).turnsOf(dist::stageOf(writer.task), mesh);
    if (!axis)
      return sum;
    auto combine = op->getAttrOfType<graph::CombineAttr>("combine");
    auto kind = !combine                                    ? dist::ReductionKind::sum
                : combine.getValue() == graph::Combine::max ? dist::ReductionKind::max
                                                            : dist::ReductionKind::min;
    OpBuilder builder = OpBuilder::atBlockEnd(&writer.block());
    return dist::AllReduceOp::create(builder, op.getLoc(), TypeRange{sum.getType()}, ValueRange{sum}, kind,
                                     builder.getStrArrayAttr({mesh.axes[*axis].name}))
        .getResult(0);
  }

  BlockArgument indexArgument() const {
    for (BlockArgument argument : block.getArguments())
      if (isScalar(argument, "microbatch"))
        return argument;
    llvm_unreachable("split-microbatches adds it");
  }

  /// The value in a task: defined there, recomputed, held by another task of the same device, or received.
  Value get(TaskKey key, Value value) {
    TaskWriter &writer = task(key);
    if (Value known = writer.mapping.lookupOrNull(value))
      return known;
    auto argument = dyn_cast<BlockArgument>(value);
    if (argument && asynchronous())
      return ofMinibatch(key, argument);
    if (asynchronous() && isOfOtherUpdate(key, value))
      return ofOwnStage(key, value);
    if (argument && (!isOwned(argument) || options.deviceOf(dist::stageOf(argument)) == deviceOf(key)))
      return writer.takeArgument(argument);
    if (parts.isAnywhere(value) || parts.isRepeated(value))
      return again(key, value);
    TaskKey from =
        argument ? TaskKey{Kind::start, options.deviceOf(dist::stageOf(argument))} : keyOf(value.getDefiningOp());
    if (auto it = sums.find(value.getDefiningOp()); it != sums.end()) { // complete when the step finishes
      from = {Kind::finish, deviceOf(it->second.first)};
      if (deviceOf(from) == deviceOf(key)) {
        Value sum = writer.takeHeld(value.getType(), it->second.second, dist::held::sum, value.getLoc());
        sum = ofAllReplicas(writer, sum, cast<graph::AccumulateOp>(value.getDefiningOp()));
        writer.mapping.map(value, sum);
        return sum;
      }
    }
    if (from.kind == Kind::forward && from.number == key.number && parts.keptFor(value) != value)
      return again(key, value);
    if (asynchronous() && isAgain(from, key, value.getDefiningOp()))
      return again(key, value);
    assert(from != key && "what a task makes is there before it is read");
    bool sameDevice = deviceOf(from) == deviceOf(key), sameStage = from.number == key.number;
    Value result = sameDevice && (from.once() || sameStage) ? pass(from, key, value) : receive(from, key, value);
    if (asynchronous() && key.once() && !from.once())
      result = ofRound(key, result);
    writer.mapping.map(value, result);
    return result;
  }

  /// An argument in a task of an asynchronous schedule. Its forward tasks run before older minibatches have updated the
  /// weights.
  Value ofMinibatch(TaskKey key, BlockArgument argument) {
    TaskWriter &writer = task(key);
    std::string name = nameOfArgument(argument).str();
    TaskKey forward = {Kind::forward, key.number}, stash = {Kind::stash, key.number};
    if (function.getArgAttr(argument.getArgNumber(), graph::names::input)) // the newest minibatch's
      return key == forward ? writer.takeArgument(argument) : take(forward, key, argument);
    auto state = function.getArgAttrOfType<DictionaryAttr>(argument.getArgNumber(), graph::names::state);
    StringRef role = state ? state.getAs<StringAttr>("role").getValue() : "";
    if (role == "step" && key == forward) { // the updates that are still to come are added
      Value behind = get(key, indexArgument()), updates = writer.takeArgument(argument);
      OpBuilder builder = OpBuilder::atBlockEnd(&writer.block());
      Value number = graph::GraphBuilder(builder, argument.getLoc()).add(updates, behind);
      writer.mapping.map(argument, number);
      return number;
    }
    if (role == "step" && options.replicasOf(deviceOf(key)) > 1) { // which counts the minibatches of whole rounds
      Value updates = writer.takeArgument(argument), more = writer.takeScalar(turnArgument, argument.getLoc());
      OpBuilder builder = OpBuilder::atBlockEnd(&writer.block());
      Value number = graph::GraphBuilder(builder, argument.getLoc()).add(updates, more);
      writer.mapping.map(argument, number);
      return number;
    }
    if (!isOwned(argument))
      return writer.takeArgument(argument);
    int owner = dist::stageOf(argument);
    if (options.deviceOf(owner) != deviceOf(key)) {
      // The owner sends the version that its forward task of the same minibatch reads, and receives the gradient.
      if (role == "parameter" && owner < key.number)
        return receiveOnce({Kind::forward, owner}, key, argument);
      fail("'" + name + "', which is no parameter, is used on several stages, which cannot keep it equal: another --cut, or a "
           "synchronous schedule");
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

  /// A value of another stage's forward task.
  Value receiveOnce(TaskKey from, TaskKey key, Value value) {
    Value result = receive(from, key, value);
    task(key).mapping.map(value, result);
    return result;
  }

  /// Whether a value is computed in the update of another device.
  bool isOfOtherUpdate(TaskKey key, Value value) {
    Operation *producer = value.getDefiningOp();
    return producer && key.once() && parts.at(producer) == Part::finish && !parts.isAnywhere(value) &&
           deviceOf(keyOf(producer)) != deviceOf(key);
  }

  /// In place of a number that is made of the gradients of several stages, as the norm for clipping: that of this
  /// stage's own gradients. No update of a minibatch has those of all stages at once.
  Value ofOwnStage(TaskKey key, Value value) {
    Operation *op = value.getDefiningOp();
    TaskWriter &writer = task(key);
    if (cast<RankedTensorType>(value.getType()).getRank() > 0 && !isa<graph::BroadcastOp>(op)) {
      fail("the update of one stage needs '" + graph::pathOf(value.getLoc()) +
           "' of the update of another one: use a synchronous schedule");
      return value;
    }
    auto sum = dyn_cast<graph::ReduceSumOp>(op);
    auto square = sum ? sum->getOperand(0).getDefiningOp<graph::MulOp>() : graph::MulOp();
    if (!square || square.getLhs() != square.getRhs())
      return again(key, value);
    OpBuilder builder = OpBuilder::atBlockEnd(&writer.block());
    Value nothing = graph::GraphBuilder(builder, op->getLoc()).splatLike(value, 0);
    writer.mapping.map(value, nothing);
    return nothing;
  }

  /// What a minibatch leaves for the update of its stage. Replicas that take minibatches in turn update together at the
  /// end of a round, by the mean of what its minibatches left; a round that the end of the pipeline's work cuts short
  /// has fewer. The scalar `turn` is the number of the last one in the round.
  Value ofRound(TaskKey key, Value value) {
    TaskWriter &writer = task(key);
    int64_t replicas = options.replicasOf(deviceOf(key));
    auto type = cast<RankedTensorType>(value.getType());
    if (replicas == 1)
      return value;
    dist::Mesh mesh = dist::toMesh(writer.task->getAttrOfType<dist::MeshAttr>(dist::names::partitioned));
    std::string axis = mesh.axes[*dist::StageAxes::of(writer.task).turnsOf(deviceOf(key), mesh)].name;
    Location loc = value.getLoc();
    Value mine = writer.takeScalar("axis_index." + axis, loc), last = writer.takeScalar(turnArgument, loc);
    OpBuilder builder = OpBuilder::atBlockEnd(&writer.block());
    graph::GraphBuilder b(builder, loc);
    Value takesPart = b.broadcast(b.compare(graph::Predicate::le, mine, last), type.getShape(), {});
    Value part = b.keepWhere(takesPart, value);
    Value sum = dist::AllReduceOp::create(builder, loc, TypeRange{type}, ValueRange{part}, dist::ReductionKind::sum,
                                          builder.getStrArrayAttr({axis}))
                    .getResult(0);
    if (!isa<FloatType>(type.getElementType()))
      return sum;
    Value count = b.cast(b.addConst(last, 1), type.getElementType());
    return b.div(sum, b.broadcast(count, type.getShape(), {}));
  }

  /// With vertical sync, device k stashes its weights for the minibatch that enters the pipeline k steps later.
  int lead(int device) const { return options.staleness == Staleness::verticalSync ? device : 0; }

  Value take(TaskKey from, TaskKey key, Value value) {
    Value result = pass(from, key, value);
    task(key).mapping.map(value, result);
    return result;
  }

  /// Whether an argument is the optimizer state `kind` (momentum, exp_avg, ...) of a parameter.
  bool isMoment(BlockArgument argument, BlockArgument parameter, StringRef kind) {
    auto state = function.getArgAttrOfType<DictionaryAttr>(argument.getArgNumber(), graph::names::state);
    auto of = state ? state.getAs<StringAttr>("of") : StringAttr();
    auto moment = state ? state.getAs<StringAttr>("moment") : StringAttr();
    return of && moment && of.getValue() == nameOfArgument(parameter) && moment.getValue() == kind;
  }

  /// The factor of the learning rate of the parameter that optimizer state belongs to.
  double lrFactorOf(BlockArgument moment) {
    auto state = function.getArgAttrOfType<DictionaryAttr>(moment.getArgNumber(), graph::names::state);
    auto factor = state ? state.getAs<FloatAttr>("lr_factor") : FloatAttr();
    return factor ? factor.getValueAsDouble() : 1;
  }

  /// The weights after s updates by momentum alone: w - s lr v (SpecTrain, arXiv 1809.02839, equations 3 to 6). On
  /// device k of n, s is k / 2 + n - k - 1 in the forward pass and k / 2 in the backward pass.
  Value predict(TaskKey key, BlockArgument argument) {
    Value velocity, rate;
    double factor = 1;
    bool trains = llvm::any_of(llvm::seq<unsigned>(0, function.getNumResults()), [&](unsigned i) {
      auto renews = function.getResultAttrOfType<StringAttr>(i, graph::names::renews);
      return renews && renews.getValue() == nameOfArgument(argument);
    });
    if (!trains)
      return task(key).takeArgument(argument);
    for (BlockArgument other : block.getArguments()) {
      if (isMoment(other, argument, "momentum")) {
        velocity = other;
        factor = lrFactorOf(other);
      }
      if (isScalar(other, "learning_rate"))
        rate = other;
    }
    TaskWriter &writer = task(key);
    Value weight = writer.takeArgument(argument);
    if (!velocity || !rate) {
      fail("predicted weights follow the momentum, which '" + nameOfArgument(argument) +
           "' does not have: use --optimizer sgd --momentum M, "
           "or another --staleness");
      return weight;
    }
    velocity = get(key, velocity), rate = get(key, rate);
    int device = deviceOf(key), updates = device / 2 + (key.kind == Kind::forward ? options.lagOf(device) : 0);
    if (updates == 0)
      return weight;
    OpBuilder builder = OpBuilder::atBlockEnd(&writer.block());
    graph::GraphBuilder b(builder, argument.getLoc());
    Value step = b.broadcast(b.scale(rate, updates * factor), graph::shapeOf(weight), {});
    Value predicted = b.sub(weight, b.mul(step, velocity));
    writer.mapping.map(argument, predicted);
    return predicted;
  }

  /// Whether a task of an asynchronous schedule recomputes an operation: cheap values that updates of several stages
  /// share, and values of the weights, if the backward pass reads other weights than the forward pass did.
  bool isAgain(TaskKey from, TaskKey key, Operation *op) {
    if (!op)
      return false;
    bool otherWeights = options.staleness == Staleness::latest || options.staleness == Staleness::predicted;
    return from.once() ? deviceOf(from) != deviceOf(key) && parts.isCheap(op)
                       : otherWeights && key != from && parts.isOfState(op);
  }

  Value again(TaskKey key, Value value) {
    Operation *op = value.getDefiningOp();
    for (Value operand : op->getOperands())
      get(key, operand);
    TaskWriter &writer = task(key);
    OpBuilder builder = OpBuilder::atBlockEnd(&writer.block());
    builder.clone(*op, writer.mapping)->removeAttr(dist::names::stage);
    return writer.mapping.lookup(value);
  }

  /// Passes a value from one task of a device to another.
  Value pass(TaskKey from, TaskKey key, Value value) {
    bool atOnce = asynchronous() && from.kind == Kind::backward; // the update follows immediately
    bool ofAll = key.once() && !asynchronous(); // of a whole batch: the evaluation of an asynchronous program
    StringRef kind = from.once() || atOnce || ofAll ? dist::held::step : dist::held::microbatch;
    auto [it, fresh] = passed.try_emplace({value, from}, "value " + std::to_string(passed.size()));
    std::string name = it->second;
    if (fresh) {
      Value source = get(from, value);
      task(from).leaveHeld(source, name, kind, value.getDefiningOp() ? when.lookup(value.getDefiningOp()) : 0);
    }
    return task(key).takeHeld(value.getType(), name, kind, value.getLoc());
  }

  /// Receives a value from another device, or from another stage of this one. The first task of the stage that uses it
  /// receives it.
  Value receive(TaskKey from, TaskKey key, Value value) {
    TaskKey entry = key;
    if (from.kind == Kind::start) {
      entry = {Kind::start, deviceOf(key)};
    } else if (asynchronous() && key.once()) {
      entry = {Kind::backward, key.number}; // of the same minibatch
    } else {
      for (Operation *user : value.getUsers())
        if (!user->hasTrait<OpTrait::IsTerminator>() && parts.at(user) != Part::anywhere)
          if (TaskKey other = keyOf(user); other.number == key.number && other.once() == key.once())
            entry = std::min(entry, other);
    }
    if (entry != key) {
      get(entry, value);
      return pass(entry, key, value);
    }
    Value source = get(from, value);
    OpBuilder builder(function);
    int64_t id = (*messageId)++;
    builder.setInsertionPointAfterValue(source);
    dist::SendOp::create(builder, value.getLoc(), source, deviceOf(key), id);
    Block &target = task(key).block();
    if (key.once())
      builder.setInsertionPointToEnd(&target);
    else
      builder.setInsertionPointToStart(&target);
    return dist::ReceiveOp::create(builder, value.getLoc(), value.getType(), deviceOf(from), id);
  }

  void writeResults() {
    for (auto [i, value] : llvm::enumerate(block.getTerminator()->getOperands())) {
      DictionaryAttr attributes = function.getResultAttrDict(i);
      Operation *producer = value.getDefiningOp();
      auto renews = function.getResultAttrOfType<StringAttr>(i, graph::names::renews);
      auto add = [&, value = value](int device) {
        TaskKey key = {Kind::finish, device};
        Value result = get(key, value);
        task(key).addResult(result, attributes);
      };
      if (!renews) { // on the stage where it is computed; else on the last one, with the loss
        bool anywhere = parts.isAnywhere(value);
        int stage = anywhere   ? options.stages() - 1
                    : producer ? dist::stageOf(producer)
                               : dist::stageOf(cast<BlockArgument>(value));
        add(options.deviceOf(stage));
        continue;
      }
      for (BlockArgument argument : block.getArguments())
        if (nameOfArgument(argument) == renews.getValue()) {
          if (isOwned(argument))
            add(options.deviceOf(dist::stageOf(argument)));
          else
            for (int device = 0; device < devices(); ++device)
              add(device);
        }
    }
  }

  /// Takes arguments that no task reads: such state is kept and saved, and such inputs remain inputs of the model. So
  /// the same files fit every plan.
  void keepArguments() {
    for (BlockArgument argument : block.getArguments()) {
      bool isInput = (bool)function.getArgAttr(argument.getArgNumber(), graph::names::input);
      if (!isInput && !function.getArgAttr(argument.getArgNumber(), graph::names::state))
        continue;
      int device = isOwned(argument) ? options.deviceOf(dist::stageOf(argument)) : 0;
      bool taken = llvm::any_of(tasks, [&](auto &entry) {
        return (isInput || deviceOf(entry.first) == device) && entry.second.mapping.contains(argument);
      });
      if (!taken)
        task({Kind::finish, device}).takeArgument(argument);
    }
  }

  void writeSchedule() {
    Builder b(function);
    SmallVector<Attribute> rows;
    auto schedule = llvm::cantFail(planning::pipeline::makeSchedule(options)); // (valid options)
    for (int device = 0; device < devices(); ++device) {
      SmallVector<Attribute> row;
      auto add = [&](Kind kind, int number, int microbatch) {
        if (tasks.count({kind, number}))
          row.push_back(b.getStringAttr(Twine(number) + "." + dist::nameOf(kind) + " " + Twine(microbatch)));
      };
      add(Kind::start, device, 0);
      int lag = asynchronous() ? options.lagOf(device) : 0;
      if (asynchronous()) {
        add(Kind::stash, device, lead(device));
        add(Kind::forward, device, 0);
        add(Kind::backward, device, -lag);
      } else if (!piped()) {
        for (int i = 0; i < options.microbatches; ++i)
          add(Kind::step, 0, i);
      } else if (function.getName() != "train") {
        for (int chunk = 0; chunk < options.chunks; ++chunk)
          for (int i = 0; i < options.microbatches; ++i)
            add(Kind::forward, options.stageOf(device, chunk), i);
      } else {
        for (const Step &step : schedule.devices[device]) {
          int stage = options.stageOf(device, step.chunk);
          if (step.kind == Step::forward)
            add(Kind::forward, stage, step.microbatch);
          if (step.sendsGradient())
            add(Kind::backward, stage, step.microbatch);
          if (step.kind == Step::weightGradient)
            add(Kind::weight, stage, step.microbatch);
        }
      }
      add(Kind::finish, device, -lag);
      rows.push_back(b.getArrayAttr(row));
    }
    OpBuilder builder(function);
    StringRef kind = !piped()                        ? "accumulate"
                     : function.getName() == "train" ? planning::pipeline::nameOf(options.kind)
                                                     : "forward";
    dist::ScheduleOp::create(builder, function.getLoc(), function.getName(), kind, options.microbatches,
                             b.getArrayAttr(rows));
  }

  func::FuncOp function;
  StepParts parts;
  const ScheduleOptions &options;
  Block &block;
  int64_t *messageId = nullptr;
  bool valid = true;
  std::map<TaskKey, TaskWriter> tasks;
  llvm::DenseMap<Operation *, int64_t> when;
  llvm::DenseSet<Operation *> weights;
  llvm::DenseMap<Operation *, std::pair<TaskKey, std::string>> sums;
  struct Passed {
    Value value;
    TaskKey from;
    bool operator<(const Passed &other) const {
      return std::pair(value.getAsOpaquePointer(), from) < std::pair(other.value.getAsOpaquePointer(), other.from);
    }
  };
  std::map<Passed, std::string> passed; // names by value and task; never iterated, for the order depends on addresses
};

struct SplitTasksPass : impl::SplitTasksPassBase<SplitTasksPass> {
  using SplitTasksPassBase::SplitTasksPassBase;

  void runOnOperation() final {
    for (auto plan : llvm::make_early_inc_range(getOperation().getOps<dist::PlanOp>()))
      plan.erase();
    int64_t message = 0, stages = 1;
    auto functions =
        llvm::to_vector(llvm::make_filter_range(getOperation().getOps<func::FuncOp>(), [](func::FuncOp function) {
          return function->hasAttr(graph::names::microbatches);
        }));
    for (func::FuncOp function : functions)
      function.walk([&](Operation *op) { stages = std::max(stages, dist::stageOf(op) + 1); });
    llvm::SetVector<Attribute> order;
    for (func::FuncOp function : functions)
      for (BlockArgument argument : function.getArguments())
        if (function.getArgAttr(argument.getArgNumber(), graph::names::state))
          order.insert(StringAttr::get(&getContext(), nameOfArgument(argument)));
    if (!functions.empty())
      getOperation()->setAttr(stateOrder, ArrayAttr::get(&getContext(), order.getArrayRef()));
    for (func::FuncOp function : functions) {
      ScheduleOptions options;
      options.microbatches = function->getAttrOfType<IntegerAttr>(graph::names::microbatches).getInt();
      options.chunks = stages > 1 ? (int64_t)chunks : 1;
      options.devices = stages / options.chunks;
      auto kind = planning::pipeline::parseScheduleKind(schedule);
      if (!kind) {
        function.emitError("schedule: expected ")
            << planning::pipeline::scheduleKindNames() << ", got '" << schedule << "'";
        return signalPassFailure();
      }
      options.kind = *kind;
      auto weights = planning::pipeline::parseStaleness(staleness);
      if (!weights) {
        function.emitError("staleness: expected ")
            << planning::pipeline::stalenessNames() << ", got '" << staleness << "'";
        return signalPassFailure();
      }
      options.staleness = *weights;
      if (stages > 1)
        options.replicas.assign(replicas.begin(), replicas.end());
      std::string wrong = stages > 1 ? options.invalid() : "";
      if (options.asynchronous() != isAsynchronous(function))
        wrong = "pipedream, and no other, is for steps of one minibatch, as split-microbatches makes them";
      else if (options.asynchronous() && function.getName() == "train" &&
               function.getOps<graph::AccumulateOp>().empty())
        wrong = "pipedream needs to know where the backward part ends: compile from the model on, or give make-train "
                "mark-gradients";
      if (stages % chunks)
        wrong = std::to_string(stages) + " stages do not divide into " + std::to_string(chunks) + " chunks a device";
      if (!wrong.empty()) {
        function.emitError("schedule: ") << wrong;
        return signalPassFailure();
      }
      auto parts = StepParts::of(function);
      if (failed(parts))
        return signalPassFailure();
      if (failed(Splitter(function, std::move(*parts), options).run(message)))
        return signalPassFailure();
    }
  }
};
} // namespace
} // namespace divisi::pipelining
