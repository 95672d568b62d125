#include "runtime/main/Program.h"

#include <algorithm>
#include <cstring>

using namespace divisi::runtime;

Result<std::unique_ptr<Program>> Program::create(const DivisiProgram &code, Manifest manifest, int threads,
                                                 Communicator *ranks) {
  Result<Arena> arena = Arena::create(manifest.arenas[static_cast<size_t>(manifest.stageOf(manifest.rank))]);
  if (!arena.ok())
    return arena.status();
  std::unique_ptr<Program> program(
      new Program(code, std::move(manifest), std::move(*arena), configureThreads(threads)));
  program->context.communicator = ranks;
  const Manifest &m = program->description;
  for (size_t axis = 0; axis < m.mesh.axes().size(); ++axis)
    program->setInteger(m.scalar("axis_index." + m.mesh.axes()[axis].name),
                        m.mesh.index(m.rank, static_cast<int64_t>(axis)));
  return program;
}

void Program::setInteger(const Tensor *tensor, int64_t value) {
  if (tensor && tensor->here)
    writeInteger(memory.at(*tensor), tensor->dtype, value);
}

void Program::setRecorder(Recorder *recorder) {
  context.recorder = recorder;
  if (context.communicator)
    context.communicator->setRecorder(recorder);
}

std::optional<int64_t> Program::step() const {
  const State *state = description.stateOf(Role::Step);
  return state && state->here ? std::optional(readInteger(memory.at(*state), state->dtype)) : std::nullopt;
}

Status Program::run(const char *function, int64_t rows, uint32_t wants) {
  const Table *table = description.table(function);
  if (!table)
    return failure("the program has no function '", function, "'");
  setInteger(description.scalar("rows"), rows);
  context.wants = wants;
  const Tensor *microbatch = description.scalar("microbatch");
  for (const Row &row : *table) {
    setInteger(microbatch, row.microbatch);
    code.tasks[row.task](&context, memory.data(), memory.data() + row.slot);
    if (context.failed())
      break;
  }
  if (Communicator *ranks = context.communicator) {
    // A rank that fails starts no more collectives: the others must not wait for it.
    if (context.failed())
      ranks->fail(ranks->located(context.error));
    if (Status status = ranks->finish(); !status.ok())
      return context.failed() ? ranks->located(context.error) : status;
  }
  return context.failed() ? context.error : collectResults(function);
}

Status Program::collectResults(const std::string &function) {
  const std::vector<Output> &all = description.results;
  for (int64_t stage = 0; stage < description.stages(); ++stage) {
    std::vector<size_t> chosen;
    for (size_t i = 0; i < all.size(); ++i)
      if (all[i].function == function && isWanted(all[i]) && std::max<int64_t>(all[i].stage, 0) == stage)
        chosen.push_back(i);
    std::vector<double> values;
    for (size_t i : chosen)
      values.push_back(all[i].here ? memory.number(all[i]) : 0);
    size_t size = values.size() * sizeof(double);
    if (size > 0 && description.stages() > 1 && context.communicator) {
      std::string bytes(reinterpret_cast<const char *>(values.data()), size);
      Communicator &ranks = *context.communicator;
      Status status = ranks.broadcast(bytes, static_cast<int>(description.firstOf(stage)), true);
      if (!status.ok())
        return ranks.located(status);
      if (bytes.size() != size)
        return failure("the ranks do not agree on the results of '", function, "'");
      std::memcpy(values.data(), bytes.data(), size);
    }
    for (size_t i = 0; i < chosen.size(); ++i)
      numbers[chosen[i]] = values[i];
  }
  return {};
}

Status Program::train(double learningRate, int64_t rows, uint32_t wants) {
  if (const Tensor *scalar = description.scalar("learning_rate"); scalar && scalar->here)
    writeNumber(memory.at(*scalar), scalar->dtype, learningRate);
  return run("train", rows, wants);
}

Status Program::evaluate(int64_t rows) { return run("evaluate", rows, 0); }

std::optional<double> Program::result(const Output *output) const {
  if (!output || !isWanted(*output))
    return std::nullopt;
  return numbers[static_cast<size_t>(output - description.results.data())];
}
