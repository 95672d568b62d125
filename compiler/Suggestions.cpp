// What PlanSearch suggests where nothing fits, and hints at where something does.
#include "compiler/PlanSearch.h"
#include "compiler/Report/Numbers.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::compiler;
using namespace divisi::planning;

/// The largest factors of suggestions, for more devices and smaller batches.
static constexpr int64_t mostTimes = 16;

/// For suggestions: those that fail are left out.
static bool succeeds(llvm::Error error) { return !llvm::errorToBool(std::move(error)); }

static LogicalResult silently(Diagnostic &) { return success(); }

PlannerOptions PlanSearch::quickly() const {
  PlannerOptions quick = request.options;
  quick.thorough = false;
  return quick;
}

/// The pipeline that compile would choose.
void PlanSearch::suggestPipeline() {
  auto ranked = first.pipelines.empty()
                    ? rankPipelines(*first.session.model.module, request.cluster,
                                    {request.devices, 0, 0, "", false, rematOfPipelines()})
                    : std::move(first.pipelines);
  if (!ranked.empty() && ranked[0].fits)
    suggestions.push_back("a pipeline, which compile then chooses: " + ranked[0].name() +
                          llvm::formatv(", {0:f2} ms a step", ranked[0].seconds * 1e3).str());
  if (request.pipelines)
    first.pipelines = std::move(ranked);
}

/// The smallest number of machines of the same kind with which a plan fits.
void PlanSearch::suggestDevices() {
  for (int64_t times = 2; times <= mostTimes && !request.givenMesh; times *= 2) {
    Cluster larger = request.cluster;
    if (larger.levels.empty())
      return;
    larger.levels.back().size *= times;
    PlannerOptions wider = quickly();
    wider.meshes = enumerateMeshes(larger, request.devices * times);
    Attempt attempt(request.model, /*warns=*/false);
    if (!larger.invalid().empty() || !succeeds(attempt.plan(larger, wider, request.microbatches)))
      return;
    if (attempt.candidates[0].fits)
      return suggestions.push_back(std::to_string(request.devices * times) +
                                   " such devices: " + describeChoice(attempt.candidates));
  }
}

/// The largest part of the batch with which a plan fits.
void PlanSearch::suggestBatch() {
  const auto *batch = batches.dimension();
  for (int64_t part = 2; batch && part <= mostTimes && batch->second % part == 0; part *= 2) {
    Attempt attempt(request.model, /*warns=*/false);
    ScopedDiagnosticHandler silence(&attempt.session.context, silently);
    int64_t smaller = attempt.request.import.dims[batch->first] /= part;
    if (!succeeds(attempt.plan(request.cluster, quickly(), request.microbatches)))
      return;
    if (attempt.candidates[0].fits)
      return suggestions.push_back("--dim " + batch->first + "=" + std::to_string(smaller) + ": " +
                                   describeChoice(attempt.candidates));
  }
}

/// The plans in bf16, best first: programs for GPUs then keep activations in 16 bits. Empty where they compute in 16
/// bits anyway, have no faster units for it, or nothing fits.
std::vector<ModuleCandidate> PlanSearch::plansInHalf(Attempt &attempt) const {
  using Device = Cluster::Device;
  const Device &device = request.cluster.device;
  attempt.request.train.precision = "bf16";
  if (device.kind != "cuda" || request.model.train.precision != "fp32" ||
      device.flops[Device::bf16] <= device.flops[Device::fp32] ||
      !succeeds(attempt.plan(request.cluster, quickly(), request.microbatches)) || !attempt.candidates[0].fits)
    return {};
  return attempt.candidates;
}

void PlanSearch::suggestPrecision() {
  Attempt attempt(request.model, /*warns=*/false);
  if (auto plans = plansInHalf(attempt); !plans.empty())
    suggestions.push_back("--precision bf16: " + describeChoice(plans));
}

void PlanSearch::hintAtPrecision() {
  const double seconds = first.candidates[0].prediction.seconds;
  Attempt attempt(request.model, /*warns=*/false);
  ScopedDiagnosticHandler silence(&attempt.session.context, silently);
  auto plans = plansInHalf(attempt);
  if (!plans.empty() && plans[0].prediction.seconds < 0.95 * seconds)
    hints.push_back(llvm::formatv("--precision bf16 takes {0} ms a step instead of {1} ({2})",
                                  digits(plans[0].prediction.seconds * 1e3), digits(seconds * 1e3), plans[0].name));
}
