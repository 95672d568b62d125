#pragma once
#include "passes/Planning/Cost/CostModel.h"
#include "passes/Planning/Search/PairwiseProblem.h"
#include "passes/Planning/Search/Numbers.h"

#include <map>
#include <optional>

namespace divisi::planning {

constexpr double never = 1e12; // microseconds: what a reshard to partial values costs

/// What it takes to reshard values on one mesh. Each pair of shardings is looked at once, and priced once for each
/// size.
class ReshardPrices {
public:
  int numberOf(const dist::Sharding &sharding);

  /// Microseconds, at most `never`, from each sharding of `rows` to each of `columns`, which are numbers of shardings;
  /// `bytes`: of the whole value, which a step reshards `times` times.
  PairwiseProblem::Matrix between(const CostModel &costs, llvm::ArrayRef<int> rows, llvm::ArrayRef<int> columns,
                                  int64_t bytes, int64_t times);
  /// Frees what only further prices need.
  void forgetSteps() { steps.clear(); }

private:
  using Steps = std::optional<std::vector<dist::ReshardStep>>; // nothing: not yet known
  struct Line;
  double price(const CostModel &costs, const Line &line, int to) const;

  Numbers<std::vector<int>> spellings; // of shardings, so that they can be compared
  std::vector<int> spelling;           // the last one
  std::vector<dist::Sharding> shardings;
  std::map<std::pair<int64_t, int>, std::vector<double>> prices; // by bytes and numbers; -1: not yet known
  std::map<int, std::vector<Steps>> steps;                       // by numbers
};

} // namespace divisi::planning
