#include "compiler/BatchSearch.h"

#include "llvm/ADT/StringExtras.h"

using namespace divisi;
using namespace divisi::compiler;
using namespace divisi::planning;

/// The largest factor of the batch.
static constexpr int64_t mostTimes = 4;

const std::pair<const std::string, int64_t> *BatchSearch::dimension() const {
  const auto &dims = model.import.dims;
  auto found = dims.find("batch");
  if (found == dims.end() && dims.size() == 1)
    found = dims.begin();
  return found == dims.end() ? nullptr : &*found;
}

const BatchSearch::Found *BatchSearch::plan(int64_t size, const Cluster &cluster, const PlannerOptions &options) {
  auto [it, fresh] = searched.try_emplace(size);
  if (fresh) {
    Attempt attempt(model, /*warns=*/false);
    mlir::ScopedDiagnosticHandler silence(&attempt.session.context, [](mlir::Diagnostic &) { return mlir::success(); });
    attempt.request.import.dims[dimension()->first] = size;
    if (!llvm::errorToBool(attempt.plan(cluster, options, microbatches))) {
      const ModuleCandidate &best = attempt.candidates[0];
      std::vector<std::string> forms = best.forms();
      it->second = {best.name + (forms.empty() ? "" : " (" + llvm::join(forms, " ") + ")"), planning::nameOf(best.mesh), forms,
                    best.fits, best.prediction.seconds};
    }
  }
  return it->second ? &*it->second : nullptr;
}

std::vector<PlanReport::Flip> BatchSearch::others(const ModuleCandidate &best, const Cluster &cluster,
                                                            const PlannerOptions &options) {
  std::vector<PlanReport::Flip> flips;
  const auto *batch = dimension();
  const std::vector<std::string> forms = best.forms();
  for (bool larger : {false, true})
    for (int64_t times = 2; batch && times <= mostTimes && (larger || batch->second % times == 0); times *= 2) {
      const int64_t size = larger ? batch->second * times : batch->second / times;
      const Found *other = plan(size, cluster, options);
      if (!other)
        break;
      if (other->fits == best.fits && other->mesh == planning::nameOf(best.mesh) && other->forms == forms)
        continue;
      flips.push_back({"batch", "samples", (double)batch->second, (double)size, other->fits ? other->name : "no plan fits", false});
      break;
    }
  return flips;
}

llvm::Expected<BatchAdvice> BatchSearch::advise(const std::string &log, const MeasuredNoise &noise, const Attempt &present,
                                                const Cluster &cluster, const PlannerOptions &options) {
  const double samples = present.work.samples;
  if (!(samples > 0))
    return llvm::createStringError("--log: no input of the model has a batch");
  const ModuleCandidate &own = present.candidates[0];
  const auto *batch = dimension();
  const int64_t size = batch ? batch->second : static_cast<int64_t>(samples);
  std::vector<BatchPrice> smaller, larger;
  for (int64_t times = 2; batch && times <= mostTimes; times *= 2) {
    if (size % times == 0)
      if (const Found *other = plan(size / times, cluster, options))
        smaller.insert(smaller.begin(), {size / times, samples / (double)times, other->seconds, other->name, other->fits});
    if (const Found *other = plan(size * times, cluster, options))
      larger.push_back({size * times, samples * (double)times, other->seconds, other->name, other->fits});
  }
  const size_t index = smaller.size();
  smaller.push_back({size, samples, own.prediction.seconds, own.name, own.fits});
  llvm::append_range(smaller, larger);
  return BatchAdvice(batch ? batch->first : "", log, noise, std::move(smaller), index);
}
