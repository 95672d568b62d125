#include "codegen/Emit/Optimize.h"

#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/ScalarEvolution.h"
#include "llvm/IR/Module.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/Utils/LoopUtils.h"

namespace {

/// Unrolls nothing but sums over few points (windows), so that the loop around them vectorizes. Copies of other loops
/// take most of the time of compilation, and gain nothing: loops that vectorize are interleaved anyway.
struct KeepLoops : llvm::PassInfoMixin<KeepLoops> {
  static constexpr unsigned fewest = 16; // points that are not unrolled

  llvm::PreservedAnalyses run(llvm::Function &function, llvm::FunctionAnalysisManager &analyses) {
    auto &evolution = analyses.getResult<llvm::ScalarEvolutionAnalysis>(function);
    for (llvm::Loop *loop : analyses.getResult<llvm::LoopAnalysis>(function))
      points(*loop, evolution);
    return llvm::PreservedAnalyses::all();
  }

private:
  /// The points of a loop and those in it; `fewest` also where their number is not known.
  static unsigned points(llvm::Loop &loop, llvm::ScalarEvolution &evolution) {
    unsigned inner = 1;
    for (llvm::Loop *nested : loop)
      inner = std::max(inner, points(*nested, evolution));
    bool carries = std::next(loop.getHeader()->phis().begin()) != loop.getHeader()->phis().end();
    if (!carries || inner >= fewest)
      llvm::addStringMetadataToLoop(&loop, "llvm.loop.unroll.disable", 1);
    unsigned count = evolution.getSmallConstantTripCount(&loop);
    return count == 0 ? fewest : std::min(fewest, count) * inner;
  }
};
} // namespace

/// Passes for kernels of CPUs: each is inlined into the loop over its rows, simplified once, and vectorized. LLVM's O2
/// simplifies several times and looks for much that generated loops do not have: steps are as fast without it.
static constexpr llvm::StringRef passesForCpu =
    "cgscc(inline),globaldce,"
    "function(sroa,early-cse<memssa>,simplifycfg,instcombine<no-verify-fixpoint>,loop-mssa(loop-rotate,licm),"
    "loop(indvars,loop-idiom,loop-deletion,loop-unroll-full),sroa,early-cse<memssa>,loop-vectorize,"
    "instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(licm),early-cse,simplifycfg)";

void divisi::codegen::optimize(llvm::Module &module, llvm::TargetMachine &machine, bool forCpu) {
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = true;
  tuning.SLPVectorization = false;
  tuning.LoopInterleaving = true;
  llvm::PassBuilder passes(&machine, tuning);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager sccs;
  llvm::ModuleAnalysisManager modules;
  passes.registerModuleAnalyses(modules);
  passes.registerCGSCCAnalyses(sccs);
  passes.registerFunctionAnalyses(functions);
  passes.registerLoopAnalyses(loops);
  passes.crossRegisterProxies(loops, functions, sccs, modules);
  if (!forCpu) {
    passes.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2).run(module, modules);
    return;
  }
  llvm::ModulePassManager manager;
  manager.addPass(llvm::createModuleToFunctionPassAdaptor(KeepLoops()));
  llvm::cantFail(passes.parsePassPipeline(manager, passesForCpu));
  manager.run(module, modules);
}
