#pragma once
#include "compiler/RankPipelines.h"
#include "compiler/RunDefaults.h"
#include "compiler/Session.h"
#include "dialects/Dist/Sync.h"

#include <functional>

namespace divisi::compiler {

/// The devices of a program, and what they do in parallel: a plan that is given, or a search for one.
struct DeviceRequest {
  std::string batchNormStats = "global"; // or local, microbatch
  PlanOptions plan;
  MicrobatchOptions microbatches; // 0 of them: to be chosen
  bool mayAccumulate = true;      // a search may choose microbatches
  bool pipelines = false;         // a search considers pipelines with these properties:
  PipelineRequest request;
};

/// A program, or a module at an earlier level, that is to be made of a model.
struct CompileRequest {
  ModelRequest model;
  RunDefaults defaults;
  DeviceRequest devices;
  dist::Sync sync;
  std::optional<dist::Sync> syncOfDump; // that of a dump that is not planned yet, which a plan file must agree with
  bool asksForPlan = false;    // something of `devices` needs one
  Level target = Level::llvm;  // the module's level afterwards
  bool writesPlan = false;     // it is written with its plan, at the level planned
  bool isProgram = false;      // it becomes a program of this name, with weights
  std::string name;
  bool cpu = true, cuda = false; // what the program can run on
  bool ptx = false;              // only the code of kernels is wanted
  std::vector<int> architectures; // of GPUs, for it
  bool epilogues = true;       // on GPUs, what follows a product is in the same call
  /// This machine, with figures as far as they are known; that for a cluster, which may measure it.
  std::function<llvm::Expected<planning::Machine>()> machine;
  std::function<llvm::Expected<planning::Machine>(llvm::StringRef cluster)> machineFor;
};

} // namespace divisi::compiler
