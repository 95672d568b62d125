#include "compiler/MicrobatchSearch.h"

#include <set>

using namespace mlir;
using namespace divisi;
using namespace divisi::compiler;

/// The numbers that are tried, over that of the devices.
static constexpr double microbatchesPerDevice[] = {1, 2, 4, 8};

int64_t compiler::searchMicrobatches(ModuleOp module, const TrainOptions &train, const planning::Cluster &cluster,
                                     const PipelineRequest &request) {
  ScopedDiagnosticHandler quiet(module.getContext(), [](Diagnostic &) { return success(); });
  std::set<int64_t> counts;
  for (double each : microbatchesPerDevice)
    counts.insert(microbatchesNear(batchOf(module), each * static_cast<double>(request.devices)));
  int64_t best = 0;
  std::optional<PipelineCandidate> fastest;
  for (int64_t count : counts) {
    TrainOptions options = train;
    options.batchNormGroups = count;
    options.splitProjections = true; // as in every search
    OwningOpRef<ModuleOp> step = module.clone();
    auto passes = [&](OpPassManager &pm) {
      addTrainPipeline(pm, options);
      addSimplify(pm);
    };
    if (count < 2 || failed(runPasses(*step, passes)))
      continue;
    PipelineRequest own = request;
    own.microbatches = count;
    std::vector<PipelineCandidate> ranked = rankPipelines(*step, cluster, own);
    if (ranked.empty() || (fastest && !ranked.front().isBetterThan(*fastest)))
      continue;
    fastest = std::move(ranked.front());
    fastest->module = nullptr; // it is of a step that ends here
    best = count;
  }
  return best;
}
