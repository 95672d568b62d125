#include "runtime/main/Program.h"

#include "runtime/core/Team.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <map>

using namespace divisi::runtime;

Result<std::unique_ptr<Program>> Program::create(const DivisiProgram &code, Manifest manifest, int threads,
                                                 Communicator *ranks, std::unique_ptr<Accelerator> accelerator) {
  Result<Arena> arena = Arena::create(manifest.arenas[static_cast<size_t>(manifest.stageOf(manifest.rank))],
                                      /*twin=*/accelerator != nullptr);
  if (!arena.ok())
    return arena.status();
  std::unique_ptr<Program> program(
      new Program(code, std::move(manifest), std::move(*arena), configureThreads(threads), ranks));
  program->context.exchange = ranks;
  program->context.accelerator = accelerator.get();
  program->accelerator = std::move(accelerator);
  if (program->accelerator && ranks) {
    program->staging = std::make_unique<Staging>(*ranks, *program->accelerator, program->memory.data());
    program->context.exchange = program->staging.get();
  }
  const Manifest &m = program->description;
  if (m.sync && ranks)
    program->replicas = std::make_unique<Replicas>(m, program->memory, *ranks);
  if (m.servers)
    program->served = std::make_unique<ServedStep>(m, program->memory, *ranks, program->deviceCopies());
  if (m.sync && m.sync->asynchronous)
    program->gossip = std::make_unique<AsynchronousGossip>(m, program->memory, *ranks, program->replicas->tensors(), program->deviceCopies());
  for (size_t axis = 0; axis < m.mesh.axes().size(); ++axis)
    program->setInteger(m.scalar("axis_index." + m.mesh.axes()[axis].name),
                        m.mesh.index(m.rank, static_cast<int64_t>(axis)));
  return program;
}

Result<std::string> Program::connectDevices(double patience) {
  std::string obstacle;
  if (!ranks || ranks->size() == 1)
    return obstacle;
  Result<int64_t> with = ranks->maximum(accelerator ? 1 : 0), without = ranks->maximum(accelerator ? 0 : 1);
  if (!with.ok() || !without.ok() || *with == 0)
    return !with.ok() ? with.status() : !without.ok() ? without.status() : Result(obstacle);
  if (*without != 0)
    return std::string("some ranks have no GPU: --device cuda says why, --device cpu computes on processors alone");
  Status status = withAccelerator([&](Accelerator &device) {
    const auto &ids = description.collectives;
    // What a driver or servers combine goes through the hosts, as do the messages of servers.
    std::set<std::vector<int64_t>> groups = description.groups;
    std::optional<int64_t> byHost = description.reducers ? std::optional(description.reducers->axis) : std::nullopt;
    byHost = description.servers ? description.servers->axis : byHost;
    std::erase_if(groups, [&](const std::vector<int64_t> &over) { return byHost && std::find(over.begin(), over.end(), *byHost) != over.end(); });
    Accelerator::Traffic traffic{groups, routesOf(description.mesh, description.messages, groups.size()),
                                 ids.empty() ? 0 : ids.rbegin()->first + 1, patience};
    if (Exchange *direct = device.connect(*ranks, traffic, *staging, obstacle); direct && !description.server)
      context.exchange = direct;
  });
  return status.ok() ? Result(obstacle) : ranks->located(status);
}

namespace {
/// Lets collectives run to their end where they are started; messages are left out.
class Rehearsal : public Exchange {
public:
  Rehearsal(Exchange &exchange, Communicator &ranks) : exchange(exchange), ranks(ranks) {}
  Status start(const DivisiCollective *params, void *const *buffers) override {
    return exchange.rehearse(params, buffers);
  }
  Status send(const DivisiTransfer &, const void *) override { return {}; }
  Status receive(const DivisiTransfer &params, void *) override {
    std::map<std::optional<int>, std::pair<int64_t, int64_t>> messages; // by sender: the last turn, and how many there are
    for (int64_t turn : turns) {
      ranks.setTurn(turn);
      auto &[last, times] = messages[ranks.peerOf(params.stage)];
      last = turn;
      times = minibatches > 0 ? minibatches : times + 1;
    }
    for (const auto &[peer, message] : messages) {
      ranks.setTurn(message.first);
      exchange.expect(params, message.second, function);
    }
    return {};
  }
  Status await(int64_t) override { return {}; }

  int function = 0;            ///< the number of the current function
  std::vector<int64_t> turns;  ///< in which it runs the current task, as in Communicator::setTurn
  int64_t minibatches = 0;     ///< of an asynchronous step, which runs the task so often in one of these turns

private:
  Exchange &exchange;
  Communicator &ranks;
};
} // namespace

void Program::addTurns(std::vector<int64_t> &turns, const Row &row, std::string_view function) const {
  if (row.replica < 0 || !isAsynchronous() || function != "train") {
    turns.push_back(row.replica < 0 ? -1 : row.microbatch);
    return;
  }
  // A row of every minibatch that this replica takes, until the peers repeat.
  int64_t most = 1;
  for (int64_t stage = 0; stage < description.stages(); ++stage)
    most = std::max(most, description.mesh.replicasOf(stage));
  auto [own, replicas] = description.turnOf(description.rank);
  for (int64_t round = 0; round < most; ++round)
    turns.push_back(own + round * replicas);
}

Status Program::rehearse() {
  if (!accelerator)
    return {};
  std::optional<Rehearsal> quietly;
  if (context.exchange)
    quietly.emplace(*context.exchange, *ranks);
  Exchange *exchange = std::exchange(context.exchange, quietly ? &*quietly : nullptr);
  Recorder *recorder = context.recorder;
  setRecorder(nullptr);
  Ranges *named = std::exchange(context.ranges, nullptr);
  context.wants = DIVISI_WHEN_GRAD_NORMS | DIVISI_WHEN_METRICS | DIVISI_WHEN_PREDICTIONS;
  Status status = withAccelerator([&](Accelerator &device) {
    std::vector<Accelerator::Place> places;
    for (const Input &input : description.inputs)
      if (input.here)
        places.push_back({static_cast<uint64_t>(input.offset), static_cast<size_t>(input.bytes)});
    device.placeInputs(places);
    device.rehearse([&] {
      int number = 0;
      for (const char *function : {"train", "evaluate"}) {
        const Table *table = description.table(function);
        std::map<int64_t, std::vector<int64_t>> turns; // by task: of runs not rehearsed, which differ in addresses and peers alone
        for (const Row &row : table ? *table : Table())
          addTurns(turns[row.task], row, function);
        for (const Row &row : table ? *table : Table()) {
          std::vector<int64_t> all = std::exchange(turns[row.task], {});
          if (all.empty() || !isOwn(row))
            continue;
          if (quietly) {
            quietly->function = number;
            quietly->turns = std::move(all);
            quietly->minibatches = isAsynchronous() && function == std::string_view("train") ? description.minibatches : 0;
          }
          code.tasks[row.task](&context, base(), base() + row.slot, constants());
        }
        ++number;
      }
    });
  });
  context.exchange = exchange;
  context.ranges = named;
  setRecorder(recorder);
  return status.ok() ? context.error : status;
}

void Program::setInteger(const Tensor *tensor, int64_t value) {
  if (tensor && tensor->here)
    writeInteger(memory.at(*tensor), tensor->dtype, value);
}

void Program::setRecorder(Recorder *recorder) {
  context.recorder = recorder;
  if (ranks)
    ranks->setRecorder(recorder);
  if (accelerator)
    accelerator->setRecorder(recorder);
}

void Program::nameRanges() {
  ranges = std::make_unique<Ranges>(description);
  context.ranges = ranges.get();
}

std::optional<int64_t> Program::step() const {
  const State *state = description.stateOf(Role::Step);
  return state && state->here ? std::optional(readInteger(memory.at(*state), state->dtype)) : std::nullopt;
}

Status Program::withAccelerator(const std::function<void(Accelerator &)> &body) {
  if (!accelerator)
    return {};
  try {
    body(*accelerator);
  } catch (const std::runtime_error &error) {
    return failure(error.what());
  }
  return {};
}

void Program::push(Accelerator &to, const Tensor &tensor) const {
  if (tensor.here)
    to.upload(static_cast<uint64_t>(tensor.offset), memory.at(tensor), static_cast<size_t>(tensor.bytes));
}

void Program::pull(Accelerator &from, const Tensor &tensor) const {
  if (tensor.here)
    from.download(static_cast<uint64_t>(tensor.offset), memory.at(tensor), static_cast<size_t>(tensor.bytes));
}

Status Program::pushStates() {
  return withAccelerator([&](Accelerator &to) {
    for (const State &state : description.state)
      push(to, state);
    to.wait();
  });
}

Status Program::pullStates() {
  return withAccelerator([&](Accelerator &from) {
    for (const State &state : description.state)
      pull(from, state);
  });
}

Status Program::meetReplicas(int64_t step, bool last) {
  if (!meetsAfter(step, last))
    return {};
  if (Status status = pullStates(); !status.ok())
    return status;
  if (Status status = replicas->meet(step, last); !status.ok())
    return ranks->located(status);
  if (Status status = meetsSeldom() ? combineResults() : Status(); !status.ok())
    return status;
  return pushStates();
}

Status Program::load(BatchSource &from, int64_t index, int64_t &rows) {
  InputPlaces places(memory.data());
  Status status = withAccelerator([&](Accelerator &to) { places = to.awaitInputs(); });
  if (status.ok())
    status = from.load(index, places, rows);
  return status.ok() ? withAccelerator([](Accelerator &to) { to.sendInputs(); }) : status;
}

Status Program::pushInputs() {
  return withAccelerator([&](Accelerator &to) {
    to.takeInputs();
    for (const auto &scalar : description.scalars)
      push(to, scalar);
  });
}

void Program::runTask(const Row &row, int64_t slot, int64_t microbatch) {
  if (ranks)
    ranks->setTurn(row.replica < 0 ? -1 : microbatch);
  Range range(ranges.get(), row);
  auto call = [&] {
    code.tasks[row.task](&context, base(), base() + slot, constants());
    return !context.failed();
  };
  if (!accelerator) {
    TaskTeamwork &teamwork = teams[row.task];
    context.smallCalls = teamwork.choose();
    const int64_t begin = divisi_team_now();
    call();
    teamwork.note(static_cast<double>(divisi_team_now() - begin));
    return;
  }
  Status status = withAccelerator([&](Accelerator &on) {
    // Other scalars, and all of a synchronous step but the microbatch, were written with the inputs.
    for (const char *name : {"microbatch", "learning_rate", "turn", "pending_updates"})
      if (const Tensor *scalar = isAsynchronous() || name == std::string_view("microbatch") ? description.scalar(name) : nullptr)
        push(on, *scalar);
    if (context.recorder) // the recorder needs the calls, which a recording replays without making them
      call();
    else
      on.run({row.task, slot, context.wants}, call);
  });
  if (!status.ok())
    context.fail(status.message());
}

void Program::runRows(const Table &table, const std::function<bool(const Row &)> &chosen) {
  const Tensor *microbatch = description.scalar("microbatch");
  for (const Row &row : table) {
    if (context.failed())
      return;
    if (!chosen(row))
      continue;
    setInteger(microbatch, row.microbatch);
    runTask(row, row.slot, row.microbatch);
  }
}

Status Program::run(const char *function, int64_t rows, uint32_t wants, const std::function<void()> &meanwhile) {
  const Table *table = description.table(function);
  if (!table)
    return failure("the program has no function '", function, "'");
  setInteger(description.scalar("rows"), rows);
  context.wants = wanted = wants;
  if (Status status = pushInputs(); !status.ok())
    return status;
  runRows(*table, [](const Row &) { return true; });
  if (ranks) {
    // A rank that has failed starts no more collectives; the others must not wait for it.
    if (context.failed())
      ranks->fail(ranks->located(context.error));
    if (Status status = ranks->finish(); !status.ok())
      return context.failed() ? ranks->located(context.error) : status;
  }
  if (context.failed())
    return context.error;
  if (accelerator && meanwhile)
    meanwhile();
  if (Status status = pullResults(function); !status.ok())
    return status;
  if (context.recorder)
    if (Status status = withAccelerator([](Accelerator &on) { on.finishRecording(); }); !status.ok())
      return status;
  return collectResults(function);
}

Status Program::runMinibatch() {
  const Table *table = description.table("train");
  if (!table)
    return failure("the program has no function 'train'");
  const Tensor *microbatch = description.scalar("microbatch"), *turn = description.scalar("turn"),
               *pending = description.scalar("pending_updates");
  for (const Row &row : *table)
    for (const Minibatches::Run &run : minibatches.runs(row)) {
      context.wants = run.minibatch.wants;
      setLearningRate(run.minibatch.learningRate);
      setInteger(microbatch, run.microbatch);
      setInteger(pending, run.pending);
      setInteger(turn, run.turn);
      runTask(row, run.slot, run.number);
      if (context.failed()) {
        if (ranks) {
          ranks->fail(ranks->located(context.error));
          return ranks->located(context.error);
        }
        return context.error;
      }
      minibatches.hasRun(row, run);
      if (row.when != Row::When::last)
        continue;
      if (Status status = pullResults("train"); !status.ok())
        return status;
      updateResults.clear();
      for (const Output &output : description.results)
        updateResults.push_back(output.here ? memory.number(output) : 0);
    }
  if (minibatches.endMinibatch()) {
    updateResults.resize(description.results.size());
    mine.push_back(updateResults);
  }
  return {};
}

Status Program::drain() {
  while (!minibatches.isEmpty())
    if (Status status = runMinibatch(); !status.ok())
      return status;
  return ranks ? ranks->finish() : Status();
}

void Program::setLearningRate(double rate) {
  if (const Tensor *scalar = description.scalar("learning_rate"); scalar && scalar->here)
    writeNumber(memory.at(*scalar), scalar->dtype, rate);
}

Status Program::train(double learningRate, int64_t rows, uint32_t wanted, const std::function<void()> &meanwhile) {
  if (isAsynchronous()) {
    setInteger(description.scalar("rows"), rows);
    minibatches.feed({learningRate, wanted});
    wants.push_back(wanted);
    if (Status status = pushInputs(); !status.ok())
      return status;
    for (int64_t i = 0; i < description.minibatches; ++i)
      if (Status status = runMinibatch(); !status.ok())
        return status;
    return {};
  }
  setLearningRate(learningRate);
  return run("train", rows, wanted, meanwhile);
}

Status Program::evaluate(int64_t rows, uint32_t wants) {
  if (!description.servers)
    return run("evaluate", rows, wants, {});
  // Servers compute no batch, but know the results, on which it depends whether training goes on.
  wanted = wants;
  if (Status status = description.server ? collectResults("evaluate") : run("evaluate", rows, wants, {}); !status.ok())
    return status;
  return tellFrom(0, numbers, "evaluate");
}
