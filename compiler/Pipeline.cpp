#include "compiler/Pipeline.h"

#include "codegen/Kernels/Passes.h"
#include "codegen/Lowering/ScalarBuilder.h"
#include "passes/Identity/Passes.h"
#include "passes/Layout/Layouts.h"
#include "passes/Layout/Passes.h"
#include "passes/Partitioning/Passes.h"
#include "passes/Pipelining/Passes.h"
#include "passes/Planning/Passes.h"
#include "passes/Training/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Transforms/Passes.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::compiler;

/// Scores of a head from which attention in one call pays on processors.
static constexpr int64_t leastScoresOnCpu = 256 * 256;

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
  if (small && options.fusedAttention && (options.forGpu || !half)) {
    pm.addPass(training::createFormAttentionPass({type, options.forGpu ? 0 : leastScoresOnCpu}));
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

void compiler::addLoops(OpPassManager &pm, bool forGpu, bool epilogues) {
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
  function.addPass(codegen::createPrepareKernelsPass());
}

void compiler::addExecPipeline(OpPassManager &pm, bool forGpu, bool epilogues) {
  pm.addPass(pipelining::createMeasureNoisePass()); // a step without shares of the batch is an error
  addLoops(pm, forGpu, epilogues);
  OpPassManager &function = pm.nest<func::FuncOp>();
  function.addPass(codegen::createFormKernelsPass({forGpu}));
  function.addPass(codegen::createOrderUpdatesPass({forGpu}));
  pm.addPass(codegen::createPlaceAwaitsPass());
  if (forGpu)
    pm.nest<func::FuncOp>().addPass(codegen::createBatchKernelsPass());
  pm.addPass(codegen::createAssignBuffersPass());
  pm.addPass(identity::createNameNodesPass());
}

LogicalResult compiler::runPasses(ModuleOp module, llvm::function_ref<void(OpPassManager &)> addPasses) {
  PassManager manager(module.getContext());
  addPasses(manager);
  manager.enableVerifier(false);
  return failure(failed(manager.run(module)) || failed(verify(module)));
}

void compiler::registerAll(DialectRegistry &registry) {
  registry
      .insert<graph::GraphDialect, dist::DistDialect, exec::ExecDialect, func::FuncDialect, arith::ArithDialect,
              math::MathDialect, scf::SCFDialect, memref::MemRefDialect, cf::ControlFlowDialect, LLVM::LLVMDialect>();
  codegen::registerLowerings(registry);
  layout::registerLayouts(registry);
}
