#pragma once
#include "dialects/Dist/StageAxes.h"
#include "passes/Training/OptimizerSettings.h"
#include "step/Buckets.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"

#include <optional>
#include <string>

namespace divisi::compiler {

/// The levels of the module on its way to a program, in order. Each can be dumped and read back.
enum class Level {
  graph,   // tensors and named operations of the model, its loss
  train,   // the training step and the evaluation over the same state
  planned, // for several devices: the same, with a sharding for every type
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
/// The level of a module that was read back, as its functions and operations show.
Level levelOf(mlir::ModuleOp module);

/// The options of the pass make-train and of those before it.
struct TrainOptions : training::OptimizerSettings {
  std::string precision = "fp32"; // fp32, tf32, bf16 or fp16
  std::vector<std::string> noDecay;   // patterns of parameters without weight decay
  std::vector<std::string> lrFactors; // PATTERN=FACTOR: of the learning rate of parameters
  std::vector<std::string> byAdamw;   // with muon: patterns of parameters that adamw updates
  double ema = 0; // share of the average of the weights that stays in each step; 0: there is none
  double clipNorm = 0;
  bool noiseScale = false; // the program logs the noise scale of the gradients
  std::vector<std::string> metrics; // of evaluations: topK, perplexity, f1, iou, auc, mae
  std::string output, label;        // of mae
  std::vector<std::string> predictions; // outputs that the program can write
  bool splitProjections = false; // for plans that shard weights
  int64_t batchNormGroups = 1;   // groups of the batch with statistics of their own
  bool forGpu = false;           // layouts and precisions that GPU libraries prefer
  bool fusedAttention = true;    // on GPUs in 16 bits: attention in one library call, without its scores in memory
  bool markGradients = false;    // for steps of stages whose batch is not split
  bool describeRules = false;    // of optimizers, for weights that are predicted
};

/// Decomposes composite operations into the simple ones for which plans are made.
void addSimplify(mlir::OpPassManager &pm);
/// From the level graph to train.
void addTrainPipeline(mlir::OpPassManager &pm, const TrainOptions &options);
/// How the step is partitioned: the options of the pass plan, and those of a search (rankPlans).
struct PlanOptions {
  std::string mesh; // data=2,model=4; empty: one device
  std::vector<std::string> pins;
  int zero = 0;
  std::optional<int64_t> remat; // segments that are recomputed; null: as many as the search finds necessary
  std::string file;             // a plan to follow instead
  std::string target = "cpu";   // cpu or cuda: the target for which a plan is made
  std::string model;            // hash of the model in a plan's text; empty: that of the planned module
  std::string cluster;          // search for the best plan on `devices` of it (on `mesh`, if given)
  int64_t devices = 1;
  bool many() const { return !mesh.empty() || !file.empty() || !cluster.empty(); }
  int64_t bucketBytes = step::bucketBytes; // of gradients reduced together
};

/// Schedules whose steps overlap: an update for every minibatch, or for every batch of several microbatches.
inline constexpr llvm::StringLiteral asynchronousSchedule = "pipedream", doubleBufferedSchedule = "pipedream-2bw";

/// How a step runs in microbatches, on one device or in a pipeline: the options of the passes in Pipelining.
struct MicrobatchOptions {
  int64_t microbatches = 1, stages = 1;
  int64_t chunks = 1;                // stages of a device
  std::string schedule = "1f1b";     // gpipe, ...
  std::string staleness = "stashed"; // of the weights in an asynchronous pipeline
  std::vector<std::string> cuts;     // where stages begin, as pipelining::placeStages takes it
  dist::StageAxes axes;              // axes of the stages' mesh that each stage has
  std::vector<int64_t> replicas;     // of each stage, which take microbatches in turn; empty: one each
  int64_t remat = 0;                 // with stages: segments that are recomputed; allParts: all

  static constexpr int64_t allParts = 65536;

  bool servedUpdate = false; // dedicated servers update the parameters: a task of its own

  /// Whether steps overlap, without a pipeline flush in between.
  bool asynchronous() const { return unsplit() || doubleBuffered(); }
  /// Whether a step is one minibatch whose tasks run in several steps.
  bool unsplit() const { return schedule == asynchronousSchedule && stages > 1; }
  /// Whether batches of several microbatches overlap, with two versions of the weights (PipeDream-2BW).
  bool doubleBuffered() const { return schedule == doubleBufferedSchedule && stages > 1; }
  /// Whether stages, or a device and the servers of its parameters, work one after the other on the whole batch.
  bool whole() const { return microbatches == 1 && (stages > 1 || servedUpdate) && !asynchronous(); }
  bool any() const { return microbatches > 1 || stages > 1 || servedUpdate; }
  /// What is wrong with `replicas` for the mesh of a stage; else "".
  std::string wrongReplicas(const dist::Mesh &mesh) const;
  /// `replicas` as text: "2,1".
  std::string replicasText() const;
  /// The number of devices of all stages.
  int64_t devices(const dist::Mesh &mesh) const;
};

/// From train to train: splits the batch into microbatches.
void addMicrobatchPipeline(mlir::OpPassManager &pm, const MicrobatchOptions &options);
/// From a module with microbatches, for one device or partitioned, to tasks and their schedule.
void addTaskPipeline(mlir::OpPassManager &pm, const MicrobatchOptions &options);
/// From train to train, for one device: recomputes `count` segments of the forward pass.
void addRemat(mlir::OpPassManager &pm, int64_t count);
/// Before a module with microbatches is planned: assigns stages, some of which lack axes of the mesh.
void addNarrowStages(mlir::OpPassManager &pm, const std::string &mesh, const MicrobatchOptions &options);
/// From train to planned.
void addPlanPipeline(mlir::OpPassManager &pm, const PlanOptions &options);
/// From planned to dist.
void addDistPipeline(mlir::OpPassManager &pm, const PlanOptions &options, const MicrobatchOptions &microbatches = {});
/// From train (one device) or dist to exec. Kernels for GPUs share fewer values through memory.
void addExecPipeline(mlir::OpPassManager &pm, bool forGpu, bool epilogues = true);

/// Registers the dialects and their lowerings.
void registerAll(mlir::DialectRegistry &registry);

} // namespace divisi::compiler
