// Plans that a strategy names, without a search.
#include "passes/Planning/Search/PinnedPlaces.h"
#include "passes/Planning/Search/Planner.h"

using namespace divisi;
using namespace divisi::dist;
using namespace divisi::planning;

static std::string nameOfStrategy(const Mesh &mesh, int zero) {
  return nameOf(mesh) + (zero ? " zero=" + std::to_string(zero) : "");
}

std::vector<Candidate> Planner::strategy(const Mesh &mesh, const std::vector<Pin> &pins, int zero,
                                         bool evenIfWhole) const {
  auto plan = planIfAny(problem, mesh, {pins, zero});
  if (!plan || (!evenIfWhole && splitsNothing(*plan)))
    return {};
  return {price(cluster, mesh, std::move(*plan), nameOfStrategy(mesh, zero))};
}

std::vector<Candidate> Planner::fittingStrategies(const Mesh &mesh, const std::vector<Pin> &pins) const {
  std::vector<Candidate> found;
  auto planOf = plansByLevel(problem, mesh, pins);
  for (int zero : {3, 1, 0})
    if (planOf && (zero == 0 || mesh.find("data"))) {
      found.push_back(price(cluster, mesh, planOf(zero), nameOfStrategy(mesh, zero)));
      if (!found.back().fits)
        break; // nor do those that shard less
    }
  return found;
}
