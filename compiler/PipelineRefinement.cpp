#include "compiler/PipelineRefinement.h"

#include "passes/Planning/Remat/Rematerialize.h"

#include <map>

using namespace mlir;
using namespace divisi;
using namespace divisi::compiler;

/// The number of moves of cuts, and its product with the number of operations.
static constexpr int64_t moves = 400, movesTimesOperations = 200'000;
/// The number of recomputed segments is searched in steps of 1 / rematSteps of all segments.
static constexpr int64_t rematSteps = 32;

PipelineRefinement::PipelineRefinement(const StepInParts &step, const StepInParts::Priced *alone,
                                       const planning::Cluster &cluster, PipelineCandidate &candidate)
    : step(step), alone(alone), cluster(cluster), candidate(candidate) {
  if (alone)
    return;
  priced = step.price(cluster, candidate.plan.mesh, candidate.plan.plan, candidate.plan.name);
  priced->plan.searched = candidate.plan.searched;
}

void PipelineRefinement::moveCuts() {
  std::vector<std::string> nodes = pipelining::nodesOf(step.train(), *step.parts);
  std::map<std::string, int64_t> numbers;
  for (auto [number, name] : llvm::enumerate(nodes))
    numbers[name] = number;
  int64_t left = std::min<int64_t>(moves, movesTimesOperations / (int64_t)step.problem.ops.size());
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t k = 0; k < candidate.options.cuts.size(); ++k)
      for (int64_t distance : {1, -1, 2, -2, 4, -4, 8, -8}) {
        std::vector<std::string> &cuts = candidate.options.cuts;
        int64_t before = k ? numbers[cuts[k - 1]] : 0,
                after = k + 1 < cuts.size() ? numbers[cuts[k + 1]] : (int64_t)nodes.size();
        int64_t number = numbers[cuts[k]] + distance;
        if (number <= before || number >= after || left-- <= 0)
          continue;
        MicrobatchOptions options = candidate.options;
        options.cuts[k] = nodes[number];
        moved |= take(options);
      }
  }
}

void PipelineRefinement::keepMore() {
  if (candidate.options.remat == 0 || !candidate.fits)
    return;
  int64_t low = 0, high = planning::rematSegments(**step.module).size();
  for (int64_t steps = std::max<int64_t>(1, high / rematSteps); high - low > steps;) {
    MicrobatchOptions options = candidate.options;
    options.remat = low + (high - low) / 2;
    (take(options) ? high : low) = options.remat;
  }
}

/// Simulates these options; if they are better, they become the candidate's.
bool PipelineRefinement::take(const MicrobatchOptions &options) {
  auto other = alone ? step.simulateNarrow(candidate.plan.mesh, candidate.plan.plan, candidate.plan.name, *alone,
                                           options, cluster)
                     : step.simulate(*priced, options, cluster);
  if (failed(other) || !other->isBetterThan(candidate))
    return false;
  candidate = std::move(*other);
  return true;
}
