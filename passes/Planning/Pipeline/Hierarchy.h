#pragma once
#include "passes/Planning/Pipeline/Cuts.h"
#include "passes/Planning/Pipeline/PipeDream.h"
#include "passes/Planning/Pipeline/StageCost.h"

#include <vector>

namespace divisi::planning {

/// PipeDream's stages for several levels: for each level, from the innermost, dynamic programming from every cut to
/// every later one.
class Hierarchy {
public:
  struct Stage {
    int inner, outer;              // cuts
    std::vector<int64_t> perLevel; // replicas, innermost level first
    double ms, transferMs;
  };

  /// At least one level.
  Hierarchy(const Cuts &cuts, llvm::ArrayRef<PipeLevel> levels);
  /// The number of cuts that are considered.
  int considered() const { return static_cast<int>(kept.size()); }
  std::vector<Stage> run();

private:
  struct Entry {
    double ms;        // of the slowest stage on at most this number of units
    int start = -1;   // of the last stage
    int replicas = 0; // of the last stage: units
  };
  size_t at(int inner, int outer) const { return static_cast<size_t>(inner) * kept.size() + outer; }
  std::vector<Entry> solveFrom(size_t level, int inner) const;
  void extend(size_t level, int start, int end, bool first, std::vector<Entry> &table) const;
  std::vector<Stage> stages(size_t level, int inner, int outer) const;

  const Cuts &cuts;
  llvm::ArrayRef<PipeLevel> levels;
  std::vector<int> kept;                  // cuts, increasing
  std::vector<bool> within;               // by two of `kept`: whether the second contains the first
  std::vector<std::vector<double>> below; // by level: milliseconds between two of `kept` on a unit of the level inside
};

} // namespace divisi::planning
