#pragma once
#include "passes/Planning/Search/BranchAndBound.h"
#include "passes/Planning/Search/SearchStage.h"
#include "passes/Planning/Search/Solver.h"

#include <memory>
#include <optional>

namespace divisi::planning {

/// The search on one graph whose least memory is within the capacity. The price of memory (a Lagrange multiplier) is
/// where the lines cost + price x memory of two plans cross, one within the capacity and one beyond it: each price
/// gives a bound and a plan whose line replaces one of them. Strategies that the bound excludes are dropped on the way.
class CappedSearch {
public:
  /// The graph must outlive it. Capacity in bytes.
  CappedSearch(const Graph &base, double capacity, const SolveOptions &options);

  /// A plan to start from: an answer if it is within the capacity, and a line.
  void offer(const std::vector<int> &choice);
  /// Starts the message passing from that of a graph in which one variable stands for several of this one.
  void adopt(const TreeReweighted &tied, const std::vector<int> &variable);
  void run();

  const GraphPlan &best() const { return cheapest; }
  /// No plan within the capacity costs less (microseconds).
  double bound() const { return std::min(lowerBound, cheapest.cost); }
  double price() const { return boundPrice; }
  int rounds() const { return roundsDone; }
  /// The last plans within the capacity and beyond it.
  const std::optional<GraphPlan> &within() const { return under; }
  const std::optional<GraphPlan> &beyond() const { return over; }

private:
  GraphPlan planOf(std::vector<int> choice) const;
  bool take(const GraphPlan &plan);
  void takeLeastMemory();
  void noteBound(double price, double value);
  bool done() const;
  void exclude(double price);
  GraphPlan evaluate(double price, bool exact);
  void cross(bool exact);
  void polish();
  void branch();

  const Graph &base;
  double capacity;
  const SolveOptions &options;
  bool narrow = false; // elimination alone is fast
  double tablesLeft;   // sums that elimination may still form
  std::unique_ptr<SearchStage> stage;
  GraphPlan cheapest; // within the capacity
  std::optional<GraphPlan> under, over;
  double lowerBound = -std::numeric_limits<double>::infinity(), boundPrice = 0;
  double workDone = 0;
  int roundsDone = 0;
};

} // namespace divisi::planning
