// Plans for some of the devices.
#include "passes/Planning/Search/MeshChoice.h"
#include "passes/Planning/Search/Planner.h"

using namespace divisi;
using namespace divisi::dist;
using namespace divisi::planning;

namespace {

/// Of more devices only whole parts are tried.
constexpr int64_t mostUneven = 16;
/// Where no whole part is better than one device, other numbers are tried in small programs only, and if they may be
/// faster by the second share. In large programs they are tried on meshes whose axes divide at least the first share of
/// the work.
constexpr double leastDivided = 0.5, leastOfUneven = 0.05;

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
} // namespace

std::vector<Candidate> Planner::onFewerDevices(const PlannerOptions &options, const Candidate &best) const {
  if (!best.fits)
    return {};
  std::vector<Candidate> result;
  const Prediction &one = alone().prediction;
  const int64_t all = options.devices();
  const bool large = problem.ops.size() > mostThorough;
  for (int64_t devices : fewerThan(all)) {
    const bool fewer = devices < best.mesh.devices(); // which may take the same time; more must be faster
    const double most = best.prediction.seconds * (fewer ? 1 + sameTime : 1 - sameTime);
    const double least = leastSeconds(one, devices);
    if (least >= most)
      continue; // too few for that much work
    const bool uneven = all % devices != 0;
    if (uneven && result.empty() && best.mesh.devices() == 1 &&
        (large || least > best.prediction.seconds * (1 - leastOfUneven)))
      continue;
    PlannerOptions only = options;
    only.meshes = enumerateMeshes(cluster, devices);
    llvm::erase_if(only.meshes, [&](const Mesh &mesh) {
      return hasIdleAxis(problem, mesh) || (uneven && large && dividesLittle(problem, one, mesh));
    });
    if (only.meshes.empty())
      continue;
    only.alone = false;
    auto found = llvm::expectedToOptional(firstCandidates(only, most));
    for (Candidate &candidate : found ? *found : std::vector<Candidate>())
      if (isBetter(candidate, best) ||
          (candidate.fits && candidate.prediction.seconds <= best.prediction.seconds * (1 + sameTime)))
        result.push_back(std::move(candidate));
  }
  return result;
}
