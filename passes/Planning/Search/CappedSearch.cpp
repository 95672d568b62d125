#include "passes/Planning/Search/CappedSearch.h"

#include "passes/Planning/Search/Elimination.h"
#include "passes/Planning/Search/LocalMoves.h"
#include "passes/Planning/Search/TreeMoves.h"

#include <algorithm>
#include <cmath>
#include <utility>

using namespace divisi::planning;

namespace {

/// Prices tried at one crossing of lines: it converges, mostly after 4 to 10.
constexpr int mostPrices = 40;
/// Branch and bound of more variables would not finish.
constexpr size_t mostToBranch = 500;
/// The fixed cost of a message, in units of the time for one matrix entry.
constexpr double messageWork = 300;
/// Rounds between two plans that messages lead to: these are improved, and strategies excluded.
constexpr int roundsToImprove = 10;
/// Of such plans, as many are combined with the best one so far.
constexpr size_t mostRecent = 3;
/// How narrow the strategies are that are first added to those of plans (SearchStage), and the rounds that take as long as
/// one elimination may.
constexpr int firstNarrow = 8;
constexpr double roundsPerElimination = 2;
/// The share of all sums that is left to exact elimination.
constexpr double tablesForExact = 0.5;
/// Rounds between two checks of the bound's progress, and the relative progress below which it has stalled.
constexpr int roundsToStall = 10;
constexpr double stall = 1e-6;
/// A graph is narrow if its elimination takes at most this share of all sums, or as many as this number of rounds of
/// message passing, which finds less: then each price is solved by elimination. Small graphs are so only by the latter.
constexpr double shareOfNarrow = 0.05;
constexpr int roundsOfNarrow = 40;
/// Rounds before anything else, if there is a limit.
constexpr int roundsToLimit = 5;
/// Elimination is given up when this share of its sums is left.
constexpr double mostWaste = 0.05;

} // namespace

CappedSearch::CappedSearch(const Graph &base, double capacity, const SolveOptions &options)
    : base(base), capacity(capacity), options(options), roomy(withinCapacity(base.mostMemory(), capacity)),
      tablesLeft(options.tables), stage(std::make_unique<SearchStage>(unreduced(base))) {}

GraphPlan CappedSearch::planOf(std::vector<int> choice) const {
  double cost = base.cost(choice), memory = base.memory(choice);
  return {std::move(choice), cost, memory};
}

/// Whether the plan is within the capacity; keeps the cheapest such plan.
bool CappedSearch::take(const GraphPlan &plan) {
  bool fits = withinCapacity(plan.memory, capacity);
  if (fits && options.others > 0)
    taken.push_back(plan);
  if (fits && plan.cost < cheapest.cost)
    cheapest = plan;
  return fits;
}

std::vector<std::vector<int>> CappedSearch::others() const {
  std::vector<std::vector<int>> result;
  for (auto plan = taken.rbegin(); plan != taken.rend() && (int)result.size() < options.others; ++plan)
    if (plan->cost <= cheapest.cost * (1 + options.gap) && plan->choice != cheapest.choice &&
        std::find(result.begin(), result.end(), plan->choice) == result.end())
      result.push_back(plan->choice);
  return result;
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

double CappedSearch::valueIn(const std::vector<int> &choice, double price) const {
  return stage->graph().cost(choice) + price * stage->graph().memory(choice);
}

/// Minimises over these strategies, if there are any, a plan of the stage; returns a bound.
double CappedSearch::eliminate(const std::optional<SearchStage::Narrowed> &narrowed, double price,
                               std::vector<int> &choice) {
  if (!narrowed)
    return -infinity;
  tablesLeft -= narrowed->order.work;
  const double bound = stage->eliminate(*narrowed, price, valueIn(choice, price), choice);
  noteBound(price, bound);
  return bound;
}

/// Improves the plan that the messages have led to, and then combines it with the best one, those before, and the strategies
/// of the lowest bounds. The cheaper the best plan, the more strategies are excluded.
void CappedSearch::improvePlan(double price, Evaluation &state) {
  std::vector<std::vector<int>> plans = {stage->messages.choice()};
  improveByTrees(stage->graph(), plans[0], price);
  state.recent.push_back(stage->expand(plans[0]));
  take(planOf(state.recent.back()));
  if (!state.found.empty())
    plans.push_back(stage->contract(state.found));
  if (cheapest.cost < infinity)
    plans.push_back(stage->contract(cheapest.choice));
  for (const std::optional<GraphPlan> &line : {under, over})
    if (line)
      plans.push_back(stage->contract(line->choice));
  for (size_t i = 0; i + 1 < state.recent.size(); ++i)
    plans.push_back(stage->contract(state.recent[i]));
  if (state.recent.size() > mostRecent)
    state.recent.erase(state.recent.begin());
  std::vector<int> choice = *std::min_element(plans.begin(), plans.end(), [&](const auto &a, const auto &b) {
    return valueIn(a, price) < valueIn(b, price);
  });
  const double most = std::min(tablesLeft - tablesForExact * options.tables, roundsPerElimination * workOfRound());
  const auto narrowed = stage->narrowed(state.narrowness, valueIn(choice, price), plans, most);
  state.narrowness = narrowed ? state.narrowness / 2 : std::min(state.narrowness + 2, SearchStage::mostNarrow);
  workDone += workOfRound();
  state.lower = std::max(state.lower, eliminate(narrowed, price, choice));
  state.least = valueIn(choice, price);
  state.found = stage->expand(choice);
  take(planOf(state.found));
}

/// A plan of low cost + price x memory; updates the lower bound. With `exact` it is the minimum, if elimination is
/// feasible.
GraphPlan CappedSearch::evaluate(double price, bool exact) {
  if (narrow) {
    std::vector<int> choice;
    noteBound(price, eliminateAll(base, price, *narrow, choice));
    return planOf(std::move(choice));
  }
  Evaluation state;
  state.narrowness = firstNarrow;
  double passed = -infinity, last = price == passedPrice ? passedBound : -infinity; // bounds of messages alone
  auto isClose = [&] {
    const double left = state.least - state.lower;
    return done() ||
           (state.least < infinity && left <= std::max(1e-9, 0.1 * options.gap) * std::abs(state.least));
  };
  for (int round = 1; round <= options.rounds; ++round) {
    if (round % roundsToImprove == 1 && round > 1)
      exclude(price); // before a round, on which the bounds of strategies depend
    passMessages(price);
    passed = std::max(passed, stage->messages.bound());
    state.lower = std::max(state.lower, passed);
    noteBound(price, state.lower);
    if (isClose())
      break;
    if (round % roundsToImprove == 0 || round == options.rounds) {
      improvePlan(price, state);
      if (isClose())
        break;
    }
    if (round % roundsToStall == 0) {
      const double progress = passed - last; // (a price is worth more rounds than this pace suggests)
      if (progress < std::max(stall, 0.01 * options.gap) * std::abs(state.lower) ||
          (roomy && progress * options.rounds < (state.least - state.lower) * roundsToStall))
        break;
      last = passed;
    }
  }
  passedPrice = price;
  passedBound = passed;
  if (state.found.empty())
    improvePlan(price, state);
  std::vector<int> choice = stage->contract(state.found);
  improve(stage->graph(), choice, price, infinity, /*pairs=*/exact);
  const double value = valueIn(choice, price);
  if (exact && value - state.lower > 1e-9 * std::abs(value))
    eliminate(stage->leastNarrowed(value, {choice}, std::min(tablesLeft, options.tables / 4)), price, choice);
  return planOf(stage->expand(choice));
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
  if (cheapest.cost == infinity || polished == std::pair(cheapest.cost, boundPrice))
    return; // it would begin where the last time began
  polished = {cheapest.cost, boundPrice};
  std::vector<int> choice = cheapest.choice;
  improveByTrees(base, choice, boundPrice);
  take(planOf(std::move(choice)));
  choice = cheapest.choice;
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
  if (!roomy)
    polish(); // else messages soon lead to better plans
  cross(/*exact=*/false);
  polish();
  if (!done() && !narrow)
    cross(/*exact=*/true);
  polish();
  narrow.reset(); // branch and bound goes by messages
  if (!done())
    branch();
}
