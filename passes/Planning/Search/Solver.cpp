#include "passes/Planning/Search/Solver.h"

#include "passes/Planning/Search/CappedSearch.h"
#include "passes/Planning/Search/Enumeration.h"
#include "passes/Planning/Search/FoldedGraph.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

using namespace divisi;
using namespace divisi::planning;

namespace {

/// Branch and bound of the tied problem: its optimum is only a first plan.
constexpr double mostTiedBranches = 5e5;
/// Where the bound is wanted, the whole problem is solved at once if the tied one has more than this share of its entries.
constexpr double mostTied = 0.7;
/// Rounds on the tied graph, from whose messages the whole graph starts.
constexpr int roundsToSpread = 40;

/// Variables of one kind with equally many strategies have a common leader.
std::vector<int> leadersByKind(const PairwiseProblem &problem) {
  std::map<std::pair<int, size_t>, int> first;
  std::vector<int> leader;
  for (int v = 0; v < static_cast<int>(problem.variables.size()); ++v) {
    const PairwiseProblem::Variable &variable = problem.variables[v];
    leader.push_back(
        variable.kind < 0 ? v : first.emplace(std::pair(variable.kind, variable.cost.size()), v).first->second);
  }
  return leader;
}

double leastMemory(const PairwiseProblem &problem) {
  double memory = 0;
  for (const PairwiseProblem::Variable &variable : problem.variables)
    if (!variable.memory.empty())
      memory += *std::min_element(variable.memory.begin(), variable.memory.end());
  return memory;
}

/// The sum of the cheapest strategies and the least entries of all matrices: a lower bound.
double plainBound(const PairwiseProblem &problem) {
  std::vector<double> least;
  for (const PairwiseProblem::Matrix &matrix : problem.matrices)
    least.push_back(matrix.entries.empty() ? 0 : *std::min_element(matrix.entries.begin(), matrix.entries.end()));
  double bound = 0;
  for (const PairwiseProblem::Variable &variable : problem.variables)
    bound += *std::min_element(variable.cost.begin(), variable.cost.end());
  for (const PairwiseProblem::Edge &edge : problem.edges)
    bound += least[edge.matrix];
  return bound;
}

/// One call of `solve`: collects the best plan and the best bound.
class Solver {
public:
  Solver(const PairwiseProblem &problem, const SolveOptions &options) : problem(problem), options(options) {}

  Solution run(const std::vector<std::vector<int>> &starts) {
    solution.infeasible = !withinCapacity(leastMemory(problem), problem.capacity);
    for (const std::vector<int> &start : starts)
      take(start);
    if (solution.infeasible)
      return leastMemoryPlan();
    if (options.exhaustSmall && mayEnumerate(problem)) {
      take(enumerate(problem));
      solution.bound = solution.cost;
      return solution;
    }
    search();
    if (solution.overLimit)
      return solution;
    solution.bound = std::min(solution.bound, solution.cost);
    return solution;
  }

private:
  /// Keeps the plan if it is the first, the first within the capacity, or the cheapest within the capacity.
  void take(const std::vector<int> &choice) {
    double cost = costOf(problem, choice), memory = memoryOf(problem, choice);
    bool fits = withinCapacity(memory, problem.capacity);
    if (any && (fits == solution.fits ? cost >= solution.cost : solution.fits))
      return;
    any = true;
    solution.choice = choice;
    solution.cost = cost;
    solution.memory = memory;
    solution.fits = fits;
  }

  /// If nothing fits: of the plans with the least memory, the cheapest that the search finds.
  Solution leastMemoryPlan() {
    PairwiseProblem rest = problem;
    rest.capacity = leastMemory(problem);
    solution = Solver(rest, options).run({});
    solution.infeasible = true;
    solution.fits = false;
    solution.bound = std::numeric_limits<double>::infinity();
    return solution;
  }

  void search() {
    Graph raw = rawGraph(problem);
    solution.bound = plainBound(problem);
    std::optional<ReducedGraph> whole;
    auto reduceWhole = [&] { whole = restrict(raw, allStrategies(raw)); };
    if (options.certify)
      reduceWhole();
    std::optional<Tied> tied;
    if (options.tied)
      tied = searchTied(raw, whole ? mostTied * whole->graph.entries() : std::numeric_limits<double>::infinity());
    if (solution.overLimit || (tied && solution.fits && !options.certify))
      return;
    if (!whole)
      reduceWhole();
    FoldedGraph folded = fold(whole->graph);
    const std::vector<int> variable = variablesOf(*whole, folded);
    CappedSearch search(folded.graph(), problem.capacity, options);
    if (tied) {
      for (const std::vector<int> &line : tied->lines)
        search.offer(contract(line, variable, folded.graph()));
      if (options.certify)
        spreadMessages(*tied, contract(tied->variable, variable, folded.graph()), search);
    }
    if (any)
      search.offer(contract(solution.choice, variable, folded.graph()));
    search.run();
    if (search.overLimit()) {
      solution.overLimit = true;
      return;
    }
    take(whole->expand(folded.expand(search.best().choice)));
    solution.others.clear(); // of the tied problem
    for (const std::vector<int> &other : search.others())
      solution.others.push_back(whole->expand(folded.expand(other)));
    solution.bound = std::max(solution.bound, search.bound());
    solution.price = search.price();
    solution.rounds += search.rounds();
  }

  /// The problem with tied variables, and the results of its search.
  struct Tied {
    std::vector<int> variable; // by variable: its representative in the graph, or -1
    Graph graph;
    double price;
    std::vector<std::vector<int>> lines; // plans of the whole problem, within the capacity and beyond it
  };

  FoldedGraph fold(const Graph &graph) const { return {graph, withinCapacity(graph.mostMemory(), problem.capacity)}; }

  /// By variable of a graph that was reduced and folded: its number in the result, or -1.
  static std::vector<int> variablesOf(const ReducedGraph &reduction, const FoldedGraph &folded) {
    std::vector<int> result;
    for (int v : reduction.variable)
      result.push_back(v < 0 ? -1 : folded.variables()[v]);
    return result;
  }

  /// Solves the tied problem and keeps its plan. Null if no variables can be tied, if its matrices have more than
  /// `mostEntries`, or if no tied plan fits or is wanted.
  std::optional<Tied> searchTied(const Graph &raw, double mostEntries) {
    std::vector<int> leader = leadersByKind(problem);
    bool led = false;
    for (int v = 0; v < static_cast<int>(leader.size()); ++v)
      led |= leader[v] != v;
    if (!led)
      return std::nullopt;
    ReducedGraph tied = reduce(raw, leader, allStrategies(raw));
    if (tied.graph.entries() > mostEntries)
      return std::nullopt;
    SolveOptions first = options;
    first.branches = std::min(first.branches, mostTiedBranches);
    FoldedGraph folded = fold(tied.graph);
    CappedSearch smaller(folded.graph(), problem.capacity, first);
    smaller.run();
    solution.rounds += smaller.rounds();
    solution.overLimit = smaller.overLimit();
    if (solution.overLimit || smaller.best().cost == std::numeric_limits<double>::infinity())
      return std::nullopt;
    solution.price = smaller.price();
    std::vector<std::vector<int>> lines;
    for (const auto &line : {smaller.within(), smaller.beyond()})
      if (line)
        lines.push_back(tied.expand(folded.expand(line->choice)));
    take(tied.expand(folded.expand(smaller.best().choice)));
    for (const std::vector<int> &other : smaller.others())
      solution.others.push_back(tied.expand(folded.expand(other)));
    return Tied{variablesOf(tied, folded), folded.graph(), smaller.price(), std::move(lines)};
  }

  /// Initialises the message passing on the whole graph at a small part of its cost, given the representative (or -1) of
  /// each of its variables.
  void spreadMessages(const Tied &tied, const std::vector<int> &representative, CappedSearch &search) {
    TreeReweighted messages(tied.graph);
    for (int round = 0; round < std::min(options.rounds, roundsToSpread); ++round)
      messages.round(tied.price);
    search.adopt(messages, representative);
  }

  /// What is given by variable (a plan, say), by variable of a smaller graph, in which each has a number or -1.
  static std::vector<int> contract(const std::vector<int> &choice, const std::vector<int> &variable,
                                   const Graph &graph) {
    std::vector<int> result(graph.variables.size());
    for (size_t v = 0; v < choice.size(); ++v)
      if (variable[v] >= 0)
        result[variable[v]] = choice[v];
    return result;
  }

  const PairwiseProblem &problem;
  const SolveOptions &options;
  Solution solution;
  bool any = false;
};

} // namespace

Solution planning::solve(const PairwiseProblem &problem, const SolveOptions &options,
                         const std::vector<std::vector<int>> &starts) {
  return Solver(problem, options).run(starts);
}
