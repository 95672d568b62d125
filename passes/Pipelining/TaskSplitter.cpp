#include "passes/Pipelining/TaskSplitter.h"
#include "dialects/Graph/GraphBuilder.h"
#include "dialects/Graph/Nodes.h"
#include "dialects/Graph/WhenNeeded.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::pipelining;

using Kind = dist::TaskKind;
using planning::pipeline::ScheduleKind;
using planning::pipeline::ScheduleOptions;
using Step = planning::pipeline::Task;

/// How values of microbatches are combined.
static dist::ReductionKind reductionOf(graph::AccumulateOp op) {
  auto combine = op->getAttrOfType<graph::CombineAttr>("combine");
  return !combine                                    ? dist::ReductionKind::sum
         : combine.getValue() == graph::Combine::max ? dist::ReductionKind::max
                                                     : dist::ReductionKind::min;
}

TaskSplitter::TaskSplitter(func::FuncOp function, StepParts parts, const ScheduleOptions &options,
                           StageDecisions decisions)
    : function(function), parts(std::move(parts)), options(options), decisions(std::move(decisions)),
      block(function.getBody().front()), when(graph::whenNeeded(function)) {
  if (options.kind == ScheduleKind::zbH1)
    weights = this->parts.weightGradients(function, [](Operation *op) { return dist::stageOf(op); });
  if (doubleBuffered())
    findOfInputs();
}

LogicalResult TaskSplitter::run(int64_t &nextMessage) {
  messageId = &nextMessage;
  findMesh();
  if (!valid)
    return failure();
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
    for (auto transfer : llvm::make_early_inc_range(task->block().getOps<dist::TransferOp>()))
      if (transfer->use_empty())
        transfer.erase(); // messages carry what it says
      else
        fail("'" + graph::pathOf(transfer) + "' is for other stages, but read on the one that sends it");
    task->finish();
    task->task->moveBefore(function);
  }
  writeSchedule();
  function.erase();
  return success(valid);
}

/// The mesh of the tasks: the stages, the replicas that take turns, and the axes inside of a stage.
void TaskSplitter::findMesh() {
  if (devices() == 1)
    return; // tasks keep the function's
  if (auto inner = function->getAttrOfType<dist::MeshAttr>(dist::names::partitioned))
    meshOfTasks = dist::toMesh(inner);
  if (!options.replicas.empty())
    axesOfTasks = dist::StageAxes::of(function).withTurns(options.replicas, meshOfTasks);
  meshOfTasks.axes.insert(meshOfTasks.axes.begin(), {dist::stageAxis.str(), devices()});
  if (meshOfTasks.axes.size() > dist::Axes::most)
    fail("with the axes of stages and of replicas in turn the mesh has " + Twine(meshOfTasks.axes.size()) +
         " axes, at most " + Twine(dist::Axes::most) + " are possible");
}

void TaskSplitter::fail(const Twine &message) {
  if (valid)
    function.emitError("schedule ") << planning::pipeline::nameOf(options.kind) << ": " << message;
  valid = false;
}

TaskKey TaskSplitter::keyOf(Operation *op) const {
  int stage = dist::stageOf(op);
  if (isa<graph::AccumulateOp>(op)) {
    Operation *producer = op->getOperand(0).getDefiningOp();
    TaskKey key = producer && parts.isTimed(producer) ? keyOf(producer)
                                                      : TaskKey{piped() ? Kind::forward : Kind::step, stage};
    if (isa_and_nonnull<dist::TransferOp>(producer)) // added where it arrives
      key.number = stage;
    // Forward passes of the next batch come before the update, which reads the sums of this one.
    if (doubleBuffered() && key.kind == Kind::forward && options.lagOf(deviceOf(key)) > 0)
      key.kind = Kind::backward;
    return key;
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

TaskWriter &TaskSplitter::task(TaskKey key) {
  auto it = tasks.find(key);
  if (it == tasks.end()) {
    NamedAttrList attributes(function->getDiscardableAttrDictionary());
    Builder b(function);
    attributes.erase(graph::names::microbatches);
    attributes.erase(asynchronousStep);
    attributes.set(dist::names::stage, b.getI64IntegerAttr(deviceOf(key)));
    if (devices() > 1) {
      if (!options.replicas.empty())
        attributes.set(dist::names::stageAxes, axesOfTasks.toAttr(function.getContext()));
      attributes.set(dist::names::partitioned, dist::toAttr(meshOfTasks, function.getContext()));
    }
    it = tasks
             .try_emplace(key, function, key.number, dist::nameOf(key.kind),
                          attributes.getDictionary(function.getContext()))
             .first;
  }
  return it->second;
}

bool TaskSplitter::isUnused(Operation &op) const {
  bool repeated = llvm::all_of(op.getResults(), [&](Value value) { return parts.isRepeated(value); });
  if (parts.at(&op) == Part::finish)
    return repeated;
  return parts.at(&op) == Part::start && repeated && llvm::none_of(op.getUsers(), [&](Operation *user) {
           return !user->hasTrait<OpTrait::IsTerminator>() && parts.at(user) == Part::start &&
                  !parts.isRepeated(user->getResult(0));
         });
}

void TaskSplitter::write(Operation *op) {
  TaskKey key = keyOf(op);
  TaskWriter &writer = task(key);
  if (auto sum = dyn_cast<graph::AccumulateOp>(op))
    return accumulate(sum, key);
  for (Value operand : op->getOperands())
    get(key, operand);
  OpBuilder builder = OpBuilder::atBlockEnd(&writer.block());
  builder.clone(*op, writer.mapping)->removeAttr(dist::names::stage);
}

void TaskSplitter::accumulate(graph::AccumulateOp op, TaskKey key) {
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
  dist::ReductionKind kind = reductionOf(op);
  Value both = kind == dist::ReductionKind::sum   ? b.add(before, x)
               : kind == dist::ReductionKind::max ? b.op<graph::MaxOp>(before, x)
                                                  : b.op<graph::MinOp>(before, x);
  Value sum = b.select(b.broadcast(isFirst, graph::shapeOf(x), {}), x, both);
  writer.leaveHeld(sum, name, dist::held::sum, when.lookup(op));
}

std::string TaskSplitter::turnAxisOf(TaskWriter &writer) const {
  dist::Mesh mesh = dist::toMesh(writer.task->getAttrOfType<dist::MeshAttr>(dist::names::partitioned));
  return mesh.axes[*dist::StageAxes::of(writer.task).turnsOf(dist::stageOf(writer.task), mesh)].name;
}

Value TaskSplitter::overReplicas(TaskWriter &writer, Value value, dist::ReductionKind kind) const {
  OpBuilder builder = OpBuilder::atBlockEnd(&writer.block());
  return dist::AllReduceOp::create(builder, value.getLoc(), TypeRange{value.getType()}, ValueRange{value}, kind,
                                   builder.getStrArrayAttr({turnAxisOf(writer)}))
      .getResult(0);
}

BlockArgument TaskSplitter::indexArgument() const {
  for (BlockArgument argument : block.getArguments())
    if (isScalar(argument, "microbatch"))
      return argument;
  llvm_unreachable("split-microbatches adds it");
}

Value TaskSplitter::get(TaskKey key, Value value) {
  TaskWriter &writer = task(key);
  if (Value known = writer.mapping.lookupOrNull(value))
    return known;
  if (Value ofStage = decisions.of(deviceOf(key), value); ofStage != value) {
    Value result = get(key, ofStage);
    writer.mapping.map(value, result);
    return result;
  }
  auto argument = dyn_cast<BlockArgument>(value);
  if (argument && asynchronous())
    return ofMinibatch(key, argument);
  if (doubleBuffered())
    if (Value found = ofBatch(key, value))
      return found;
  if ((asynchronous() || doubleBuffered()) && isOfOtherUpdate(key, value))
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
      if (options.replicasOf(deviceOf(key)) > 1)
        sum = overReplicas(writer, sum, reductionOf(cast<graph::AccumulateOp>(value.getDefiningOp())));
      writer.mapping.map(value, sum);
      return sum;
    }
  }
  if (from.kind == Kind::forward && from.number == key.number && parts.keptFor(value) != value)
    return again(key, value);
  if (asynchronous() && isAgain(from, key, value.getDefiningOp()))
    return again(key, value);
  assert(from != key && "what a task makes is there before it is read");
  if (asynchronous() && key.once() && from.kind == Kind::forward && options.replicasOf(deviceOf(key)) > 1)
    from.kind = Kind::backward; // all replicas update with the last one's slot: each one's own ends with its backward task
  bool sameDevice = deviceOf(from) == deviceOf(key), sameStage = from.number == key.number;
  Value result = sameDevice && (from.once() || sameStage) ? pass(from, key, value) : receive(from, key, value);
  if (asynchronous() && key.once() && !from.once())
    result = ofRound(key, result);
  writer.mapping.map(value, result);
  return result;
}

Value TaskSplitter::again(TaskKey key, Value value) {
  Operation *op = value.getDefiningOp();
  for (Value operand : op->getOperands())
    get(key, operand);
  TaskWriter &writer = task(key);
  OpBuilder builder = OpBuilder::atBlockEnd(&writer.block());
  builder.clone(*op, writer.mapping)->removeAttr(dist::names::stage);
  return writer.mapping.lookup(value);
}

Value TaskSplitter::pass(TaskKey from, TaskKey key, Value value) {
  if (doubleBuffered() && from.kind == Kind::start)
    from = startFor(key);
  bool atOnce = asynchronous() && from.kind == Kind::backward; // the update follows immediately
  bool ofAll = key.once() && !asynchronous() && !doubleBuffered(); // of a whole batch: the evaluation of an asynchronous program
  bool ofBatch = doubleBuffered() && from.kind == Kind::stash;
  StringRef kind = from.once() || atOnce || ofAll || ofBatch ? dist::held::step : dist::held::microbatch;
  auto [it, fresh] = passed.try_emplace({value, from}, "value " + std::to_string(passed.size()));
  std::string name = it->second;
  if (fresh) {
    Value source = get(from, value);
    task(from).leaveHeld(source, name, kind, value.getDefiningOp() ? when.lookup(value.getDefiningOp()) : 0);
  }
  return task(key).takeHeld(value.getType(), name, kind, value.getLoc());
}

Value TaskSplitter::receive(TaskKey from, TaskKey key, Value value) {
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
  ArrayAttr dims;
  if (auto transfer = source.getDefiningOp<dist::TransferOp>()) {
    source = transfer.getInput();
    dims = transfer.getDims();
  }
  dist::SendOp::create(builder, value.getLoc(), source, deviceOf(key), id, dims);
  Block &target = task(key).block();
  if (key.once())
    builder.setInsertionPointToEnd(&target);
  else
    builder.setInsertionPointToStart(&target);
  return dist::ReceiveOp::create(builder, value.getLoc(), value.getType(), deviceOf(from), id, dims);
}

void TaskSplitter::writeResults() {
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

void TaskSplitter::keepArguments() {
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

void TaskSplitter::writeSchedule() {
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
    int lag = asynchronous() || doubleBuffered() ? options.lagOf(device) : 0;
    if (doubleBuffered()) {
      if (lag == 0) // the weights of the next batch are taken first
        add(Kind::finish, device, -1);
      add(Kind::stash, device, -lag);
      add(Kind::forward, device, 0);
      add(Kind::backward, device, -lag);
    } else if (asynchronous()) {
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
    if (!doubleBuffered() || lag > 0)
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
