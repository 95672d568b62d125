#include "passes/Planning/Search/CappedSearch.h"

#include "passes/Planning/Search/Elimination.h"
#include "passes/Planning/Search/LocalMoves.h"

#include <algorithm>
#include <cmath>
#include <utility>

using namespace divisi::planning;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
/// Prices tried at one crossing of lines: it converges, mostly after 4 to 10.
constexpr int mostPrices = 40;
/// Branch and bound of more variables would not finish.
constexpr size_t mostToBranch = 500;
/// The fixed cost of a message, in units of the time for one matrix entry.
constexpr double messageWork = 300;
/// Rounds between two attempts to exclude strategies.
constexpr int roundsToExclude = 5;
/// Rounds between two checks of the bound's progress, and the relative progress below which it has stalled.
constexpr int roundsToStall = 10;
constexpr double stall = 1e-6;
/// A graph is narrow if its elimination takes at most this share of all sums, or as many as this number of rounds of
/// message passing, which finds less: then each price is solved by elimination. Small graphs are so only by the latter.
constexpr double shareOfNarrow = 0.05;
constexpr int roundsOfNarrow = 40;
/// Rounds before the first attempt to eliminate all strategies that are left, if that is no more work than the rounds
/// so far; each further attempt is after twice as many.
constexpr int roundsToEliminate = 20;
/// Rounds before anything else, if there is a limit.
constexpr int roundsToLimit = 5;
/// Elimination is given up when this share of its sums is left.
constexpr double mostWaste = 0.05;

} // namespace

CappedSearch::CappedSearch(const Graph &base, double capacity, const SolveOptions &options)
    : base(base), capacity(capacity), options(options), roomy(withinCapacity(base.mostMemory(), capacity)),
      tablesLeft(options.tables), stage(std::make_unique<SearchStage>(restrict(base, allStrategies(base)))) {}

GraphPlan CappedSearch::planOf(std::vector<int> choice) const {
  double cost = base.cost(choice), memory = base.memory(choice);
  return {std::move(choice), cost, memory};
}

/// Whether the plan is within the capacity; keeps the cheapest such plan.
bool CappedSearch::take(const GraphPlan &plan) {
  bool fits = withinCapacity(plan.memory, capacity);
  if (fits && plan.cost < cheapest.cost)
    cheapest = plan;
  return fits;
}

void CappedSearch::offer(const std::vector<int> &choice) {
  GraphPlan plan = planOf(choice);
  std::optional<GraphPlan> &line = take(plan) ? under : over;
  if (!line || plan.cost < line->cost)
    line = plan;
}

void CappedSearch::adopt(const TreeReweighted &tied, const std::vector<int> &variable) {
  stage->messages.spread(tied, variable);
}

void CappedSearch::takeLeastMemory() {
  std::vector<int> choice;
  for (const Graph::Variable &variable : base.variables) {
    int best = 0;
    for (int s = 1; s < variable.size(); ++s)
      if (std::pair(variable.memory[s], variable.cost[s]) < std::pair(variable.memory[best], variable.cost[best]))
        best = s;
    choice.push_back(best);
  }
  improve(base, choice, 0, capacity, /*pairs=*/false);
  offer(choice);
}

void CappedSearch::noteBound(double price, double value) {
  double bound = price > 0 ? value - price * capacity : value;
  if (bound > lowerBound) {
    lowerBound = bound;
    boundPrice = price;
  }
}

bool CappedSearch::done() const {
  return (cheapest.cost < infinity && cheapest.cost - lowerBound <= options.gap * std::abs(cheapest.cost)) ||
         workDone > options.work || overLimit();
}

/// Excludes the strategies with which no plan within the capacity is cheaper than the cheapest so far. Bounds of the
/// remaining problem hold for all cheaper plans. The plans of the lines are kept.
void CappedSearch::exclude(double price) {
  if (cheapest.cost == infinity)
    return;
  std::vector<const std::vector<int> *> plans = {&cheapest.choice};
  for (const auto &line : {&under, &over})
    if (*line)
      plans.push_back(&(*line)->choice);
  double limit = cheapest.cost + 1e-9 * std::abs(cheapest.cost) + (price > 0 ? price * capacity : 0);
  if (auto next = stage->without(limit, plans))
    stage = std::move(next);
}

/// Of message passing, in matrix entries.
double CappedSearch::workOfRound() const {
  return 2 * (stage->graph().entries() + messageWork * stage->graph().edges.size());
}

void CappedSearch::passMessages(double price) {
  stage->messages.round(price);
  ++roundsDone;
  workDone += workOfRound();
}

/// A plan of low cost + price x memory; updates the lower bound. With `exact` it is the minimum, if elimination is
/// feasible.
GraphPlan CappedSearch::evaluate(double price, bool exact) {
  if (narrow) {
    std::vector<int> choice;
    noteBound(price, eliminateAll(base, price, *narrow, choice));
    return planOf(std::move(choice));
  }
  double lower = -infinity, last = price == passedPrice ? passedBound : -infinity, least = infinity;
  std::vector<int> found; // value `least`; of the stage until it changes, then of the whole graph
  bool inStage = false;
  int nextAttempt = roundsToEliminate;
  auto leaveStage = [&] {
    if (std::exchange(inStage, false))
      found = stage->expand(found);
  };
  for (int round = 1; round <= options.rounds; ++round) {
    if (round % roundsToExclude == 1 && round > 1) {
      leaveStage();
      if (roomy) { // the cheaper the best plan, the more is excluded
        std::vector<int> choice = found;
        improve(base, choice, price, infinity, /*pairs=*/false);
        take(planOf(std::move(choice)));
      }
      exclude(price);
    }
    TreeReweighted &messages = stage->messages;
    passMessages(price);
    if (round == 1 || messages.value() < least) {
      least = messages.value();
      found = messages.choice();
      inStage = true;
    }
    lower = std::max(lower, messages.bound());
    noteBound(price, lower);
    double left = least - lower, scale = std::abs(least);
    if (left <= std::max(1e-9, 0.1 * options.gap) * scale || done())
      break;
    if (round % roundsToStall == 0) {
      const double progress = lower - last; // (a price is worth more rounds than this pace suggests)
      if (progress < std::max(stall, 0.01 * options.gap) * std::abs(lower) ||
          (roomy && progress * options.rounds < left * roundsToStall))
        break;
      last = lower;
    }
    if (roomy && round == nextAttempt && tablesLeft > 0) {
      nextAttempt *= 2;
      std::vector<int> choice = inStage ? found : stage->contract(found);
      improve(stage->graph(), choice, price, infinity, /*pairs=*/false);
      const double value = stage->graph().cost(choice) + price * stage->graph().memory(choice);
      const double most = std::min(tablesLeft, round * workOfRound());
      if (const double bound = stage->eliminate(price, value, most, tablesLeft, choice, /*all=*/true);
          bound > -infinity) {
        noteBound(price, bound);
        return planOf(stage->expand(choice));
      }
    }
  }
  passedPrice = price;
  passedBound = lower;
  leaveStage();
  GraphPlan plan = planOf(std::move(found));
  auto valueOf = [&](const GraphPlan &p) { return p.cost + price * p.memory; };
  std::vector<int> choice = stage->contract(plan.choice);
  improve(stage->graph(), choice, price, infinity, /*pairs=*/exact);
  double value = stage->graph().cost(choice) + price * stage->graph().memory(choice);
  if (exact && value - lower > 1e-9 * std::abs(value))
    noteBound(price, std::max(lower, stage->eliminate(price, value, std::min(tablesLeft, options.tables / 4),
                                                      tablesLeft, choice, /*all=*/false)));
  GraphPlan improved = planOf(stage->expand(choice));
  return valueOf(improved) < valueOf(plan) ? improved : plan;
}

void CappedSearch::cross(bool exact) {
  for (int count = 0; count < mostPrices && !done() && (!exact || tablesLeft > mostWaste * options.tables); ++count) {
    double price = 0;
    if (under && over && over->cost < under->cost)
      price = (under->cost - over->cost) / (over->memory - under->memory);
    GraphPlan plan = evaluate(price, exact);
    bool fits = take(plan);
    double value = plan.cost + price * plan.memory;
    bool lower = !over || value < over->cost + price * over->memory - 1e-9 * std::abs(value);
    if (fits ? !under || lower : lower)
      (fits ? under : over) = plan;
    if (!lower || (fits && price == 0))
      return;
  }
}

void CappedSearch::polish() {
  if (under && over)
    take(planOf(mix(base, under->choice, over->choice, capacity)));
  if (cheapest.cost == infinity)
    return;
  std::vector<int> choice = cheapest.choice;
  improve(base, choice, 0, capacity, /*pairs=*/true);
  take(planOf(choice));
}

/// Closes the gap that the multiplier leaves, if the remaining problem is small enough.
void CappedSearch::branch() {
  if (base.variables.size() > mostToBranch)
    return;
  double entries = 0, price = boundPrice;
  do {
    entries = stage->graph().entries();
    evaluate(price, /*exact=*/false);
  } while (!done() && stage->graph().entries() < entries);
  if (done())
    return;
  const Graph &graph = stage->graph();
  GraphPlan plan;
  plan.cost = cheapest.cost;
  bool complete = branchAndBound(graph, stage->messages, price, capacity, options.branches, plan);
  if (!plan.choice.empty())
    take(planOf(stage->expand(plan.choice)));
  if (complete)
    lowerBound = std::max(lowerBound, cheapest.cost);
}

void CappedSearch::run() {
  for (int round = 0; options.limit < infinity && round < roundsToLimit && !overLimit(); ++round) {
    passMessages(/*price=*/0);
    noteBound(/*price=*/0, stage->messages.bound());
  }
  if (overLimit())
    return;
  if (cheapest.cost == infinity)
    takeLeastMemory();
  if (cheapest.cost == infinity)
    return; // even the least memory exceeds the capacity
  std::vector<int> sizes;
  for (const Graph::Variable &variable : base.variables)
    sizes.push_back(variable.size());
  double little = roundsOfNarrow * workOfRound();
  if (sizes.size() > mostToBranch)
    little = std::max(little, options.tables * shareOfNarrow);
  little = std::min(little, options.tables / 4);
  if (EliminationOrder order = EliminationOrder::best(base, sizes, little); order.work <= little)
    narrow = std::move(order);
  polish();
  cross(/*exact=*/false);
  polish();
  if (!done() && !narrow)
    cross(/*exact=*/true);
  polish();
  narrow.reset(); // branch and bound goes by messages
  if (!done())
    branch();
}
