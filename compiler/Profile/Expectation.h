#pragma once
#include "codegen/Emit/Calls.h"
#include "compiler/Profile/Database.h"
#include "passes/Planning/Cost/Cluster.h"

namespace divisi::compiler {

/// What a program's training step is expected to take, call by call. Times in microseconds.
struct Expectation {
  std::vector<codegen::ProgramCall> calls;
  std::vector<double> microseconds; // by call
  double step = 0;                  // with collectives beside the computation, as the runtime runs them, and feeding
  double measured = 0;              // the share of the calls' time that comes from the database
};

/// From the database where it has an entry; else by roofline and ring formulas, times how far these are off, at the median, for
/// calls of this kind that the database has.
Expectation expectStep(mlir::func::FuncOp train, const planning::Cluster &cluster,
                       const RunSetting &setting, const ProfileDatabase &database);

} // namespace divisi::compiler
