#pragma once
#include "compiler/Jit.h"
#include "dialects/Dist/Dist.h"
#include "test/execute/Tensors.h"

namespace divisi::test {

/// The inputs and scalars of one run of a task.
struct Turn {
  bool train;
  Tensors inputs;
};
/// Its results: the reports, and the state afterwards.
struct Outcome {
  Tensors reports, states;
};

/// Runs the tasks on one device, or on as many as the mesh has: threads, each with its own arena. Returns one outcome
/// for each turn. Fails the test if a task fails, if replicated values differ in any bit, or if padding does not stay
/// zero.
std::vector<Outcome> runTurns(const compiler::JitProgram &program, const dist::Mesh &mesh, const Tensors &states,
                              const std::vector<Turn> &turns);

} // namespace divisi::test
