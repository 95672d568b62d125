#pragma once
#include "dialects/Dist/StageAxes.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"

#include <optional>
#include <string>

namespace divisi::compiler {

/// The levels of the one module on its way to a program, in order. Each can be dumped and read back.
enum class Level {
  graph,   // tensors and named operations of the model, its loss
  train,   // the training step and the evaluation over one state
  planned, // for several devices: the same, every type with its sharding
  dist,    // for several devices: local shapes and collectives
  exec,    // tasks over buffers at fixed offsets
  llvm,    // LLVM dialect
};

struct LevelInfo {
  Level level;
  llvm::StringLiteral name, description;
};
llvm::ArrayRef<LevelInfo> allLevels();
std::optional<Level> levelByName(llvm::StringRef name);
/// The level of a module that was read back, judged by its functions and operations.
Level levelOf(mlir::ModuleOp module);

/// What the training step is made with: the options of the pass make-train, as text for the pass manager.
struct TrainOptions {
  std::string optimizer = "sgd", precision = "fp32"; // precision: fp32, tf32, bf16 or fp16
  double momentum = 0, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weightDecay = 0, clipNorm = 0;
  bool nesterov = false;
  bool splitProjections = false; // for plans that split weights
  int64_t batchNormGroups = 1;   // parts of the batch with statistics of their own
  bool forGpu = false;           // layouts and precisions as GPUs' libraries like them
  bool fusedAttention = true;    // on GPUs and in 16 bits, attention by a library, without its scores in memory
  bool markGradients = false;    // for an asynchronous schedule
};

/// Composite operations become simple ones: what plans are made for.
void addSimplify(mlir::OpPassManager &pm);
/// graph to train.
void addTrainPipeline(mlir::OpPassManager &pm, const TrainOptions &options);
/// How the step is split over devices: the options of the pass plan, and what a search (rankPlans) is for.
struct PlanOptions {
  std::string mesh; // data=2,model=4; empty: one device
  std::vector<std::string> pins;
  int zero = 0;
  std::optional<int64_t> remat; // parts that are computed again; nothing: as many as a search finds necessary
  std::string file;             // a plan to follow instead
  std::string target = "cpu";   // cpu or cuda: what plans are made for
  std::string model;            // the hash that stands in a plan's text; empty: that of the module that is planned
  std::string cluster;          // search for the cheapest plan on `devices` of it (on `mesh`, if there is one)
  int64_t devices = 1;
  bool many() const { return !mesh.empty() || !file.empty() || !cluster.empty(); }
  int64_t bucketBytes = 1 << 20; // of gradients that are reduced together: small, so that the first travel early
};

/// How a step runs in microbatches, on one device or in a pipeline: the options of the passes of Pipelining.
struct MicrobatchOptions {
  int64_t microbatches = 1, stages = 1;
  int64_t chunks = 1;                // stages of a device
  std::string schedule = "1f1b";     // gpipe, ...
  std::string staleness = "stashed"; // of the weights of pipedream
  std::vector<std::string> cuts;     // first nodes of stages
  dist::StageAxes axes;              // of a stage's mesh that stages have
  int64_t remat = 0;                 // with stages: parts of them that are computed again; allParts: all

  static constexpr int64_t allParts = 65536;

  /// An update for every batch, without waiting for the end of the one before.
  bool asynchronous() const { return schedule == "pipedream" && stages > 1; }
  bool any() const { return microbatches > 1 || asynchronous(); }
};

/// train to train: the batch split over time.
void addMicrobatchPipeline(mlir::OpPassManager &pm, const MicrobatchOptions &options);
/// A module with microbatches, for one device or partitioned, to tasks and their schedule.
void addTaskPipeline(mlir::OpPassManager &pm, const MicrobatchOptions &options);
/// train to train, for one device: so many parts of the forward part are computed again.
void addRemat(mlir::OpPassManager &pm, int64_t count);
/// Before the plan of a module with microbatches: says which operations are on stages that lack axes of the mesh.
void addNarrowStages(mlir::OpPassManager &pm, const std::string &mesh, const MicrobatchOptions &options);
/// train to planned.
void addPlanPipeline(mlir::OpPassManager &pm, const PlanOptions &options);
/// planned to dist.
void addDistPipeline(mlir::OpPassManager &pm, const PlanOptions &options, const MicrobatchOptions &microbatches = {});
/// train (one device) or dist to exec. Kernels for GPUs share less through memory.
void addExecPipeline(mlir::OpPassManager &pm, bool forGpu, bool epilogues = true);

/// Registers the dialects and their lowerings.
void registerAll(mlir::DialectRegistry &registry);

} // namespace divisi::compiler
