// Plans for some of the devices.
#include "passes/Planning/Search/MeshChoice.h"
#include "passes/Planning/Search/Planner.h"

#include <cmath>

using namespace divisi;
using namespace divisi::dist;
using namespace divisi::planning;

namespace {

/// Of more devices only whole parts are tried.
constexpr int64_t mostUneven = 16;
/// Where no whole part is better than one device, other numbers are tried in small programs only, and if they may be
/// faster by the second share. In large programs they are tried on meshes whose axes divide at least the first share of
/// the work, and only if they are fewer than those of the best plan.
constexpr double leastDivided = 0.5, leastOfUneven = 0.05;

/// How far below the known ones the share of another mesh may be (leastShare): it was 0.992 of them at least in published networks.
constexpr double leastOfShares = 0.99;
/// How much faster a plan of a large program must be on more devices than the best plan's, or on a part that is not whole.
constexpr double fasterOfLarge = 0.01;

/// The smaller numbers of devices from which plans are tried: whole parts first.
std::vector<int64_t> fewerThan(int64_t all) {
  std::vector<int64_t> result;
  for (int64_t devices = all - 1; devices > 1; --devices)
    if (all % devices == 0 || all <= mostUneven)
      result.push_back(devices);
  llvm::stable_sort(result, [&](int64_t a, int64_t b) { return all % a == 0 && all % b != 0; });
  return result;
}

/// Whether an axis divides no factor of most operations, by the seconds that they take on one device.
bool dividesLittle(const Problem &problem, const Prediction &one, const Mesh &mesh) {
  return llvm::any_of(mesh.axes, [&](const auto &axis) {
    double whole = 0, divided = 0;
    for (auto [op, seconds] : llvm::zip(problem.ops, one.operations)) {
      const double all = (double)op.repeats * seconds;
      whole += all;
      if (mayDivide(op, axis.size))
        divided += all;
    }
    return divided < leastDivided * whole;
  });
}
/// What the step of a searched plan takes at least, as a share of its pairwise cost: a little less than the least share of the plans
/// that were found, all with the first look's share of overlap.
double leastShare(llvm::ArrayRef<Candidate> found) {
  double least = std::numeric_limits<double>::infinity();
  for (const Candidate &candidate : found)
    if (candidate.searchCost > 0 && std::isfinite(candidate.searchCost))
      least = std::min(least, candidate.prediction.seconds / candidate.searchCost);
  return std::isfinite(least) ? least * leastOfShares : 0;
}
} // namespace

std::vector<Candidate> Planner::onFewerDevices(const PlannerOptions &options, llvm::ArrayRef<Candidate> found) const {
  const Candidate &best = *std::min_element(found.begin(), found.end(), isBetter);
  if (!best.fits)
    return {};
  std::vector<Candidate> result;
  double fastestSoFar = best.prediction.seconds;
  int64_t itsDevices = best.mesh.devices();
  const Prediction &one = alone().prediction;
  const int64_t all = options.devices();
  const bool large = problem.ops.size() > mostThorough;
  const double share = large ? leastShare(found) : 0;
  for (int64_t devices : fewerThan(all)) {
    const bool fewer = devices < itsDevices, uneven = all % devices != 0;
    const bool saves = fewer && !(large && uneven); // they may take the same time, all others must be faster
    const double most = fastestSoFar * (saves ? 1 + best.error : 1 - (large ? fasterOfLarge : sameTime));
    const double least = leastSeconds(devices);
    if (least >= most)
      continue; // too few for that much work
    const bool gainsLittle = result.empty() && best.mesh.devices() == 1 && least > best.prediction.seconds * (1 - leastOfUneven);
    if (uneven && (large ? !fewer : gainsLittle))
      continue;
    PlannerOptions only = options;
    only.meshes = enumerateMeshes(cluster, devices);
    llvm::erase_if(only.meshes, [&](const Mesh &mesh) {
      return hasIdleAxis(problem, mesh) || (uneven && large && dividesLittle(problem, one, mesh));
    });
    if (only.meshes.empty())
      continue;
    only.alone = false;
    auto others = llvm::expectedToOptional(firstCandidates(only, {most, share}));
    const double accepted = large && !saves ? most : best.prediction.seconds * (1 + best.error);
    for (Candidate &candidate : others ? *others : std::vector<Candidate>())
      if (candidate.fits && candidate.prediction.seconds <= accepted)
        result.push_back(std::move(candidate));
    if (double seconds = fastest(result); seconds < fastestSoFar) {
      fastestSoFar = seconds;
      itsDevices = devices;
    }
  }
  return result;
}
