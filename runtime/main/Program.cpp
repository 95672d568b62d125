#include "runtime/main/Program.h"

using namespace divisi::runtime;

Result<std::unique_ptr<Program>> Program::create(const DivisiProgram &code, Manifest manifest, int threads,
                                                 Communicator *ranks) {
  Result<Arena> arena = Arena::create(code.arena_bytes);
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
  if (tensor)
    writeInteger(memory.at(*tensor), tensor->dtype, value);
}

void Program::setRecorder(Recorder *recorder) {
  context.recorder = recorder;
  if (context.communicator)
    context.communicator->setRecorder(recorder);
}

std::optional<int64_t> Program::step() const {
  const State *state = description.stateOf(Role::Step);
  return state ? std::optional(readInteger(memory.at(*state), state->dtype)) : std::nullopt;
}

Status Program::run(void (*function)(DivisiContext *, char *), const char *name, int64_t rows, uint32_t wants) {
  if (!function)
    return failure("the program has no function '", name, "'");
  setInteger(description.scalar("rows"), rows);
  context.wants = wants;
  function(&context, memory.data());
  if (Communicator *ranks = context.communicator) {
    // A rank that fails starts no more collectives: the others must not wait for it.
    if (context.failed())
      ranks->fail(ranks->located(context.error));
    if (Status status = ranks->finish(); !status.ok())
      return context.failed() ? ranks->located(context.error) : status;
  }
  return context.error;
}

Status Program::train(double learningRate, int64_t rows, uint32_t wants) {
  if (const Tensor *scalar = description.scalar("learning_rate"))
    writeNumber(memory.at(*scalar), scalar->dtype, learningRate);
  return run(code.train, "train", rows, wants);
}

Status Program::evaluate(int64_t rows) { return run(code.evaluate, "evaluate", rows, 0); }

std::optional<double> Program::result(const Output *output) const {
  if (!output || (output->when != 0 && (output->when & context.wants) == 0))
    return std::nullopt;
  return memory.number(*output);
}
