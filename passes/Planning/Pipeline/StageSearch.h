#pragma once
#include "passes/Planning/Pipeline/Cuts.h"
#include "passes/Planning/Pipeline/PipeDream.h"

namespace divisi::planning {

/// The search for PipeDream's stages. The cuts of the network are searched exactly if they can be counted; layers that
/// no better plan can cut apart are joined first, with the best time that is known. Otherwise the network is restricted
/// to linear orders of its layers, and then, again and again, to an order in which only layers near the cuts of the
/// best plan are free.
class StageSearch {
public:
  /// Both must outlive the search.
  StageSearch(const LayerProfile &profile, llvm::ArrayRef<PipeLevel> levels, PipeCost cost);
  PipeDreamPlan run();

private:
  /// How the layers of a stage are ordered.
  enum class Order { profile, depth, lateWeights, earlyWeights };
  /// How much one search may do: that of all cuts, around the best plan, of one linear order.
  enum class Effort { all, near, line };

  LayerGraph graphBelow(double ms) const;
  bool search(const LayerGraph &graph, Effort effort);
  bool searchLevel(const Cuts &cuts, Effort effort);
  bool searchLevels(const Cuts &cuts, Effort effort);
  void refine();
  std::vector<int> orderOf(const LayerGraph &graph, Order order, std::vector<int> *ends = nullptr) const;
  std::vector<LayerGraph::Window> windowsAround(const std::vector<int> &ends, int count, int width) const;
  std::vector<int> keepNear(const Cuts &cuts, int most) const;
  bool offer(PipeDreamPlan plan);
  bool closed() const { return best.slowestMs <= best.boundMs * roundingSlack; }

  const LayerProfile &profile;
  llvm::ArrayRef<PipeLevel> levels;
  PipeCost cost;
  LayerGroups groups;
  PipeDreamPlan best;
};

} // namespace divisi::planning
