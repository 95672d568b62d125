#pragma once
#include "passes/Planning/Pipeline/Cuts.h"
#include "passes/Planning/Pipeline/PipeDream.h"
#include "passes/Planning/Pipeline/StageCost.h"

#include <vector>

namespace divisi::planning {

/// PipeDream's stages for several levels. Inside of the units of the outermost level: for each level, from the
/// innermost, dynamic programming from a cut to every later one. On the outermost level: bisection on the time of the
/// slowest stage, and for a time limit the fewest units that hold the network up to each cut. So only those cuts are
/// starts of a search inside that are worth starting from.
class Hierarchy {
public:
  struct Stage {
    int inner, outer;              // cuts
    std::vector<int64_t> perLevel; // replicas, innermost level first
    double ms, transferMs;
  };

  /// At least one level. Only the cuts `kept` are considered; they rise from the first to the last. `steps`: the most
  /// steps of dynamic programming inside of units; the rest of the starts then have no more than one stage inside.
  Hierarchy(const Cuts &cuts, llvm::ArrayRef<PipeLevel> levels, PipeCost cost, std::vector<int> kept, int64_t &steps);
  /// All cuts, or at most `most`: the network is divided into equal parts of compute and parameters, and of each part
  /// the cut with the fewest crossing bytes is kept.
  static std::vector<int> keep(const Cuts &cuts, int most);
  /// The number of cuts that are considered.
  int considered() const { return static_cast<int>(kept.size()); }
  std::vector<Stage> run();
  /// Whether `run` has searched all; otherwise its result is the best so far.
  bool complete() const { return steps > 0; }

private:
  struct Entry {
    double ms;        // of the slowest stage on at most this number of units
    int start = -1;   // of the last stage
    int replicas = 0; // of the last stage: units
  };
  struct Choice {
    int start, end; // of `kept`
    int64_t units;
  };
  size_t at(int inner, int outer) const { return static_cast<size_t>(inner) * kept.size() + outer; }
  double ms(int inner, int outer) const { return cuts[kept[outer]].ms - cuts[kept[inner]].ms; }
  double parameterMs(size_t level, int inner, int outer) const;
  double crossing(size_t level, int cut) const;
  const std::vector<double> &below(size_t level, int inner);
  std::vector<Entry> solveFrom(size_t level, int inner, bool all);
  void extend(size_t level, int start, int end, bool first, std::vector<Entry> &table);
  int64_t unitsFor(int start, int end, int64_t most, double limit);
  bool reach(double limit);
  std::vector<Choice> choices() const;
  double slowest(const std::vector<Choice> &choices);
  std::vector<Choice> outermost();
  std::vector<Choice> inside(size_t level, int inner, int outer);
  std::vector<Stage> expand(size_t level, const std::vector<Choice> &choices);

  const Cuts &cuts;
  llvm::ArrayRef<PipeLevel> levels;
  PipeCost cost;
  int64_t &steps;           // that are left
  std::vector<int> kept;    // cuts, increasing
  std::vector<bool> within; // by two of `kept`: whether the second contains the first
  /// By level and a cut: milliseconds from it to each of `kept` on a unit of the level inside; empty until computed.
  std::vector<std::vector<std::vector<double>>> times;
  std::vector<Choice> reached; // by cut: the last stage, `units` in all
  std::vector<int64_t> ofLast; // by cut: units of the last stage
};

} // namespace divisi::planning
