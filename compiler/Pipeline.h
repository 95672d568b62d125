#pragma once
#include "compiler/Levels.h"
#include "compiler/MicrobatchOptions.h"
#include "passes/Training/OptimizerSettings.h"
#include "step/Buckets.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"

#include <optional>
#include <string>

namespace divisi::compiler {

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
  bool fusedAttention = true;    // in bf16, and in fp16 on GPUs: attention in one call, without its scores in memory
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

/// From train to train: splits the batch into microbatches.
void addMicrobatchPipeline(mlir::OpPassManager &pm, const MicrobatchOptions &options);
/// From a module with microbatches, for one device or partitioned, to tasks and their schedule.
void addTaskPipeline(mlir::OpPassManager &pm, const MicrobatchOptions &options);
/// Before a module with microbatches is planned: assigns stages, some of which lack axes of the mesh.
void addNarrowStages(mlir::OpPassManager &pm, const std::string &mesh, const MicrobatchOptions &options);
/// From train to planned.
void addPlanPipeline(mlir::OpPassManager &pm, const PlanOptions &options);
/// From planned to dist.
void addDistPipeline(mlir::OpPassManager &pm, const PlanOptions &options, const MicrobatchOptions &microbatches = {});
/// The first part of addExecPipeline: the operations of which kernels are formed.
void addLoops(mlir::OpPassManager &pm, bool forGpu, bool epilogues = true);
/// From train (one device) or dist to exec. Kernels for GPUs share fewer values through memory.
void addExecPipeline(mlir::OpPassManager &pm, bool forGpu, bool epilogues = true);

/// Runs passes on a module. It is verified once, at the end: behind each pass that takes a sixth of a compilation.
mlir::LogicalResult runPasses(mlir::ModuleOp module, llvm::function_ref<void(mlir::OpPassManager &)> addPasses);

/// Registers the dialects and their lowerings.
void registerAll(mlir::DialectRegistry &registry);

} // namespace divisi::compiler
