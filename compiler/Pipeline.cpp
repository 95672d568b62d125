#include "compiler/Pipeline.h"

#include "codegen/Kernels/Passes.h"
#include "codegen/Lowering/ScalarBuilder.h"
#include "divisi/abi.h"
#include "passes/Identity/Passes.h"
#include "passes/Layout/Layouts.h"
#include "passes/Layout/Passes.h"
#include "passes/Partitioning/Passes.h"
#include "passes/Pipelining/Passes.h"
#include "passes/Planning/Passes.h"
#include "passes/Planning/Simulator/Schedule.h"
#include "passes/Training/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Transforms/Passes.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::compiler;

static const LevelInfo levels[] = {
    {Level::graph, "graph", "the model's tensors and named operations, static shapes, loss"},
    {Level::train, "train", "the training step and the evaluation, pure functions over one state"},
    {Level::planned, "planned", "for several devices: every type carries its sharding"},
    {Level::dist, "dist", "for several devices: local shapes, explicit collectives"},
    {Level::exec, "exec", "tasks over buffers at fixed offsets: fused kernels and library calls"},
    {Level::llvm, "llvm", "host code and kernels in the LLVM dialect"},
};

ArrayRef<LevelInfo> compiler::allLevels() { return levels; }

std::optional<Level> compiler::levelByName(StringRef name) {
  for (const LevelInfo &info : levels)
    if (info.name == name)
      return info.level;
  return std::nullopt;
}

Level compiler::levelOf(ModuleOp module) {
  if (!module.getOps<LLVM::LLVMFuncOp>().empty())
    return Level::llvm;
  if (module->hasAttr(exec::names::arena))
    return Level::exec;
  if (!module.getOps<dist::ScheduleOp>().empty())
    return Level::dist;
  for (auto function : module.getOps<func::FuncOp>())
    if (function->hasAttr(dist::names::mesh) || function->hasAttr(dist::names::partitioned))
      return function->hasAttr(dist::names::mesh) ? Level::planned : Level::dist;
  return module.lookupSymbol("train") ? Level::train : Level::graph;
}

void compiler::addTrainPipeline(OpPassManager &pm, const TrainOptions &options) {
  if (options.splitProjections)
    pm.addPass(planning::createSplitProjectionsPass());
  if (options.batchNormGroups > 1)
    pm.addPass(training::createGroupBatchNormPass({options.batchNormGroups}));
  pm.addPass(layout::createBatchFirstPass());
  pm.addPass(layout::createChannelsLastPass({options.forGpu, options.precision != "fp32"}));
  pm.addPass(createCanonicalizerPass());
  bool half = options.precision == "fp16", small = half || options.precision == "bf16";
  const std::string type = half ? "f16" : "bf16";
  if (small && options.forGpu && options.fusedAttention) {
    pm.addPass(training::createFormAttentionPass({type}));
    pm.addPass(createCanonicalizerPass());
  }
  if (small)
    pm.addPass(training::createReducePrecisionPass({type}));
  pm.addPass(identity::createNameNodesPass());
  training::MakeEvaluatePassOptions evaluate;
  evaluate.metrics.assign(options.metrics.begin(), options.metrics.end());
  evaluate.output = options.output;
  evaluate.label = options.label;
  evaluate.averages = options.ema > 0;
  evaluate.predictions.assign(options.predictions.begin(), options.predictions.end());
  pm.addPass(training::createMakeEvaluatePass(evaluate));
  training::MakeTrainPassOptions train;
  train.optimizer = options.optimizer;
  train.momentum = options.momentum;
  train.nesterov = options.nesterov;
  train.alpha = options.alpha;
  train.centered = options.centered;
  train.beta1 = options.beta1;
  train.beta2 = options.beta2;
  train.eps = options.eps;
  train.trustCoefficient = options.trustCoefficient;
  train.weightDecay = options.weightDecay;
  train.beta2Decay = options.beta2Decay;
  train.matchRms = options.matchRms;
  train.gradientFactor = options.gradientFactor;
  train.decayFactor = options.decayFactor;
  train.decayPost = options.decayPost;
  train.countsThis = options.countsThis;
  train.byAdamw.assign(options.byAdamw.begin(), options.byAdamw.end());
  train.ema = options.ema;
  train.noDecay.assign(options.noDecay.begin(), options.noDecay.end());
  train.lrFactors.assign(options.lrFactors.begin(), options.lrFactors.end());
  train.clipNorm = options.clipNorm;
  train.lossScaling = half;
  train.noiseScale = options.noiseScale;
  train.markGradients = options.markGradients;
  train.describeRules = options.describeRules;
  pm.addPass(training::createMakeTrainPass(train));
  pm.addPass(createCanonicalizerPass());
  if (small && (options.forGpu || !half)) // CPUs have no units for fp16 that their libraries use
    pm.addPass(training::createNarrowContractionsPass());
  if (options.precision == "tf32")
    pm.addPass(training::createUseTf32Pass());
  const bool tensorCores = options.forGpu && (small || options.precision == "tf32");
  if (tensorCores)
    pm.addPass(training::createKeepGeluPass());
  pm.addPass(identity::createNameNodesPass());
  if (tensorCores) {
    addSimplify(pm);
    pm.addPass(planning::createAlignContractionsPass());
  }
}

/// `all`: also decomposes the operations that were kept for fuse-epilogues.
static void addDecompose(OpPassManager &pm, bool all) {
  OpPassManager &function = pm.nest<func::FuncOp>();
  function.addPass(codegen::createDecomposePass({all}));
  function.addPass(createCanonicalizerPass());
  function.addPass(identity::createCseAcrossNodesPass());
  pm.addPass(identity::createNameNodesPass());
}

void compiler::addSimplify(OpPassManager &pm) { addDecompose(pm, /*all=*/false); }

void compiler::addRemat(OpPassManager &pm, int64_t count) {
  addSimplify(pm);
  pm.addPass(planning::createRematerializePass({count}));
}

void compiler::addPlanPipeline(OpPassManager &pm, const PlanOptions &options) {
  addSimplify(pm);
  planning::PlanPassOptions plan;
  plan.mesh = options.mesh;
  plan.pins = llvm::join(options.pins, ";");
  plan.zero = options.zero;
  plan.remat = options.remat.value_or(0);
  plan.file = options.file;
  plan.target = options.target;
  plan.model = options.model;
  pm.addPass(planning::createPlanPass(plan));
}

std::string MicrobatchOptions::wrongReplicas(const dist::Mesh &mesh) const {
  if (replicas.empty())
    return "";
  planning::pipeline::ScheduleOptions options;
  options.kind = *planning::pipeline::parseScheduleKind(schedule);
  options.devices = stages / chunks;
  options.microbatches = microbatches;
  options.chunks = chunks;
  options.replicas = replicas;
  options.batch = options.doubleBuffered() ? microbatches : 1;
  constexpr int64_t mostReplicas = 4096, mostPlaces = 1 << 16; // the runtime's limit
  for (int64_t count : replicas)
    if (count < 1 || count > mostReplicas)
      return "replicas: from 1 to " + std::to_string(mostReplicas) + " are possible, not " + std::to_string(count);
  if (!axes.empty())
    return "stages whose replicas take microbatches in turn have the same axes: leave out the axes of each stage";
  dist::Mesh all = mesh;
  axes.withTurns(replicas, all);
  constexpr size_t mostAxes = DIVISI_MAX_AXES - 1; // beside that of stages
  if (all.axes.size() > mostAxes)
    return "a mesh has an axis for the stages, one for each number of replicas above 1, and those of a stage: at "
           "most " +
           std::to_string(mostAxes + 1);
  int64_t places = options.devices;
  for (const dist::Mesh::Axis &axis : all.axes)
    places = std::min(places * axis.size, mostPlaces + 1);
  if (places > mostPlaces)
    return "a mesh has at most " + std::to_string(mostPlaces) + " places, and an axis for each number of replicas above "
           "1: take numbers that are equal";
  return options.invalid();
}

std::string MicrobatchOptions::replicasText() const {
  return llvm::join(llvm::map_range(replicas, [](int64_t count) { return std::to_string(count); }), ",");
}

int64_t MicrobatchOptions::devices(const dist::Mesh &mesh) const {
  int64_t sum = 0;
  for (int64_t stage = 0; stage < stages / chunks; ++stage)
    sum += axes.devices(stage, mesh) * (replicas.empty() ? 1 : replicas[stage]);
  return sum;
}

void compiler::addNarrowStages(OpPassManager &pm, const std::string &mesh, const MicrobatchOptions &options) {
  if (!options.axes.empty())
    pm.addPass(
        pipelining::createAssignStagesPass({options.stages, llvm::to_vector(options.cuts), mesh, options.axes.text()}));
}

void compiler::addMicrobatchPipeline(OpPassManager &pm, const MicrobatchOptions &options) {
  addSimplify(pm);
  pm.addPass(pipelining::createSplitMicrobatchesPass({options.microbatches, options.unsplit(), options.whole()}));
  addSimplify(pm);
}

void compiler::addTaskPipeline(OpPassManager &pm, const MicrobatchOptions &options) {
  pm.addPass(pipelining::createMeasureNoisePass());
  pm.addPass(pipelining::createAssignStagesPass({options.stages, llvm::to_vector(options.cuts), "", ""}));
  if (options.stages > 1 && !options.asynchronous())
    pm.nest<func::FuncOp>().addPass(pipelining::createAccumulateFirstPass());
  if (options.remat > 0)
    pm.addPass(planning::createRematerializePass({options.remat}));
  pm.addPass(pipelining::createSplitTasksPass(
      {options.schedule, options.staleness, options.chunks, llvm::to_vector(options.replicas)}));
}

void compiler::addDistPipeline(OpPassManager &pm, const PlanOptions &options, const MicrobatchOptions &microbatches) {
  pm.addPass(partitioning::createPartitionPass());
  pm.addPass(partitioning::createSeparateReplicasPass());
  OpPassManager &simplify = pm.nest<func::FuncOp>();
  simplify.addPass(createCanonicalizerPass());
  simplify.addPass(identity::createCseAcrossNodesPass());
  addTaskPipeline(pm, microbatches);
  pm.addPass(pipelining::createServeUpdatesPass());
  OpPassManager &function = pm.nest<func::FuncOp>();
  function.addPass(partitioning::createPrefetchStatePass({options.bucketBytes}));
  function.addPass(partitioning::createBucketCollectivesPass({options.bucketBytes}));
  pm.addPass(identity::createNameNodesPass());
}

void compiler::addExecPipeline(OpPassManager &pm, bool forGpu, bool epilogues) {
  pm.addPass(pipelining::createMeasureNoisePass()); // a step without shares of the batch is an error
  if (forGpu && epilogues) {
    addSimplify(pm);
    pm.nest<func::FuncOp>().addPass(codegen::createFuseEpiloguesPass());
  }
  addDecompose(pm, /*all=*/true);
  OpPassManager &function = pm.nest<func::FuncOp>();
  if (forGpu) {
    function.addPass(codegen::createExpandTopKPass());
    function.addPass(codegen::createExpandScatterPass());
  }
  function.addPass(codegen::createSplitReductionsPass({forGpu}));
  function.addPass(identity::createCseAcrossNodesPass());
  function.addPass(codegen::createFormKernelsPass({forGpu}));
  function.addPass(codegen::createOrderUpdatesPass({forGpu}));
  pm.addPass(codegen::createPlaceAwaitsPass());
  if (forGpu)
    pm.nest<func::FuncOp>().addPass(codegen::createBatchKernelsPass());
  pm.addPass(codegen::createAssignBuffersPass());
  pm.addPass(identity::createNameNodesPass());
}

void compiler::registerAll(DialectRegistry &registry) {
  registry
      .insert<graph::GraphDialect, dist::DistDialect, exec::ExecDialect, func::FuncDialect, arith::ArithDialect,
              math::MathDialect, scf::SCFDialect, memref::MemRefDialect, cf::ControlFlowDialect, LLVM::LLVMDialect>();
  codegen::registerLowerings(registry);
  layout::registerLayouts(registry);
}
