#pragma once
#include "compiler/Jit.h"
#include "dialects/Dist/Dist.h"
#include "test/execute/Tensors.h"

namespace divisi::test {

/// What one task is run on: inputs and scalars.
struct Turn {
  bool train;
  Tensors inputs;
};
/// What it left: the reports of its results, and the states.
struct Outcome {
  Tensors reports, states;
};

/// Runs the tasks on one device, or on as many as the mesh has: threads, each with its own arena. Outcomes by turn.
/// Fails the test if a task fails, if the devices disagree about a bit of what they should share, or if padding does
/// not stay zero.
std::vector<Outcome> runTurns(const compiler::JitProgram &program, const dist::Mesh &mesh, const Tensors &states,
                              const std::vector<Turn> &turns);

} // namespace divisi::test
