#pragma once
#include "codegen/Emit/Calls.h"
#include "compiler/Profile/Database.h"
#include "passes/Planning/Cost/Collectives.h"

#include "mlir/IR/BuiltinOps.h"

#include "llvm/ADT/StringMap.h"

namespace divisi::compiler {

/// What a program's training step is expected to take, call by call. Times in microseconds.
struct Expectation {
  std::vector<codegen::ProgramCall> calls;
  std::vector<double> microseconds; // by call
  std::vector<int64_t> tasks;       // by call: the number of its task in the module
  std::vector<int64_t> times;       // by call: in a step, on all stages together; of an asynchronous schedule 1
  bool ends = true;    // no stage waits for a message that nobody sends before: what a pipeline's tasks must prove
  double step = 0;     // with collectives beside the computation, as the runtime runs them, and feeding
  HostLinks links;     // of the cluster, by which the program's all_reduces choose their way
  double measured = 0; // the share of the calls' time that comes from the database
};

/// The share of a step's time that must come from the database for its sum to count as measured.
constexpr double leastMeasured = 0.5;

/// Why a database does not count for `what` (a plan or a program), of which it has this share in the setting; which
/// settings it has times of.
std::string whyUnmeasured(const ProfileDatabase &database, const RunSetting &setting, llvm::StringRef what,
                          double share);

/// Times of calls from the database where it has an entry; else by roofline and ring formulas, times how far these are
/// off, at the median, for calls of this kind that the database has. The tasks of the training step run by their
/// schedule, each stage on a device of its own.
Expectation expectStep(mlir::ModuleOp module, const planning::Cluster &cluster, const RunSetting &setting,
                       const ProfileDatabase &database);

/// The seconds of a collective by formula, along axes of a mesh.
double secondsOf(const codegen::ProgramCall &collective, const planning::Cluster &cluster, const dist::Mesh &mesh);

/// How often a step runs each task of @train, on all stages together; in an asynchronous schedule once.
llvm::StringMap<int64_t> runsOfTasks(mlir::ModuleOp module);

} // namespace divisi::compiler
