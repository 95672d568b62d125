#pragma once
#include "passes/Planning/Search/BranchAndBound.h"
#include "passes/Planning/Search/EliminationOrder.h"
#include "passes/Planning/Search/SearchStage.h"
#include "passes/Planning/Search/Solver.h"

#include <memory>
#include <optional>

namespace divisi::planning {

/// The search on one graph whose least memory is within the capacity. The price of memory (a Lagrange multiplier) is
/// where the lines cost + price x memory of two plans cross, one plan within the capacity and one beyond it. Each price
/// gives a bound and a plan whose line replaces one of the two. Strategies that the bound excludes are dropped.
class CappedSearch {
public:
  /// The graph must outlive the search. The capacity is in bytes.
  CappedSearch(const Graph &base, double capacity, const SolveOptions &options);

  /// Offers a plan to start from: as a line, and as an answer if it is within the capacity.
  void offer(const std::vector<int> &choice);
  /// Starts the message passing from that of a graph in which one variable stands for several of this one, -1: none.
  void adopt(const TreeReweighted &tied, const std::vector<int> &variable);
  void run();

  const GraphPlan &best() const { return cheapest; }
  /// Other plans within the capacity whose cost is within the gap of the best one's: the last ones that were found.
  std::vector<std::vector<int>> others() const;
  /// A lower bound on the cost of every plan within the capacity, in microseconds.
  double bound() const { return std::min(lowerBound, cheapest.cost); }
  /// Whether every plan costs more than the limit: there may be no best plan then.
  bool overLimit() const { return bound() > options.limit; }
  double price() const { return boundPrice; }
  int rounds() const { return roundsDone; }
  /// The last plans within the capacity and beyond it.
  const std::optional<GraphPlan> &within() const { return under; }
  const std::optional<GraphPlan> &beyond() const { return over; }

private:
  GraphPlan planOf(std::vector<int> choice) const;
  bool take(const GraphPlan &plan);
  void passMessages(double price);
  void takeLeastMemory();
  void noteBound(double price, double value);
  bool done() const;
  double workOfRound() const;
  double valueIn(const std::vector<int> &choice, double price) const;
  double eliminate(const std::optional<SearchStage::Narrowed> &narrowed, double price, std::vector<int> &choice);
  void exclude(double price);
  struct Evaluation { // at one price
    double lower = -std::numeric_limits<double>::infinity(), least = std::numeric_limits<double>::infinity();
    std::vector<int> found;               // the best plan, of value `least`, of the whole graph
    std::vector<std::vector<int>> recent; // plans that messages led to lately, likewise
    int narrowness = 0;                   // of the next elimination (SearchStage)
  };
  void improvePlan(double price, Evaluation &state);
  GraphPlan evaluate(double price, bool exact);
  void cross(bool exact);
  void polish();
  void branch();

  const Graph &base;
  double capacity;
  const SolveOptions &options;
  const bool roomy;                       // every plan is within the capacity: the price is 0
  std::optional<EliminationOrder> narrow; // if elimination alone is fast
  double tablesLeft;                      // sums that elimination may still compute
  std::unique_ptr<SearchStage> stage;
  GraphPlan cheapest; // within the capacity
  std::vector<GraphPlan> taken; // within the capacity, if others are wanted
  std::optional<GraphPlan> under, over;
  double lowerBound = -std::numeric_limits<double>::infinity(), boundPrice = 0;
  std::pair<double, double> polished{0, 0}; // cost and price
  double passedPrice = -1, passedBound = 0; // of the last messages: further ones at this price begin with this bound
  double workDone = 0;
  int roundsDone = 0;
};

} // namespace divisi::planning
