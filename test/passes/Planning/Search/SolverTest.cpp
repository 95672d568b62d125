#include "passes/Planning/Search/Solver.h"
#include "test/passes/Planning/Search/RandomProblems.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <string>

using namespace divisi::planning;
using namespace divisi::planning::test;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// The least cost by trying every plan; infinity if none fits. Independent of the library except for its problem.
double leastCost(const PairwiseProblem &problem, double capacity) {
  std::vector<size_t> choice(problem.variables.size());
  double least = infinity;
  while (true) {
    double cost = 0, memory = 0;
    for (size_t v = 0; v < choice.size(); ++v) {
      cost += problem.variables[v].cost[choice[v]];
      memory += problem.variables[v].memory.empty() ? 0 : problem.variables[v].memory[choice[v]];
    }
    for (const auto &edge : problem.edges) {
      const auto &matrix = problem.matrices[edge.matrix];
      cost += matrix.entries[choice[edge.from] * matrix.columns + choice[edge.to]];
    }
    if (memory <= capacity * (1 + 1e-12))
      least = std::min(least, cost);
    size_t v = 0;
    while (v < choice.size() && ++choice[v] == problem.variables[v].cost.size())
      choice[v++] = 0;
    if (v == choice.size())
      return least;
  }
}

std::pair<double, double> memoryRange(const PairwiseProblem &problem) {
  double least = 0, most = 0;
  for (const auto &variable : problem.variables)
    if (!variable.memory.empty()) {
      least += *std::min_element(variable.memory.begin(), variable.memory.end());
      most += *std::max_element(variable.memory.begin(), variable.memory.end());
    }
  return {least, most};
}

/// Checks a solution against enumeration, and returns whether it is optimal.
bool check(const PairwiseProblem &problem, const Solution &solution, double optimum) {
  EXPECT_EQ(solution.choice.size(), problem.variables.size());
  if (solution.choice.size() != problem.variables.size())
    return false;
  EXPECT_DOUBLE_EQ(solution.cost, costOf(problem, solution.choice));
  EXPECT_DOUBLE_EQ(solution.memory, memoryOf(problem, solution.choice));
  EXPECT_EQ(solution.fits, optimum < infinity);
  EXPECT_EQ(solution.infeasible, optimum == infinity);
  EXPECT_GE(solution.price, 0);
  if (optimum == infinity)
    return true;
  double slack = 1e-9 * (1 + optimum);
  EXPECT_LE(solution.memory, problem.capacity * (1 + 1e-12));
  EXPECT_LE(solution.bound, optimum + slack);
  EXPECT_GE(solution.cost, optimum - slack);
  EXPECT_GE(solution.gap(), 0);
  return solution.cost <= optimum + slack;
}

/// Random, of four strategies each; some variables may be tied.
PairwiseProblem grid(int width, int height, int seed) {
  Random random(seed);
  PairwiseProblem problem;
  problem.matrices.push_back({4, 4, {}});
  for (int i = 0; i < 16; ++i)
    problem.matrices[0].entries.push_back(random.upTo(3));
  for (int v = 0; v < width * height; ++v) {
    PairwiseProblem::Variable &variable = problem.variables.emplace_back();
    variable.kind = v % 3 == 0 && v >= width ? v % width : -1;
    for (int s = 0; s < 4; ++s) {
      variable.cost.push_back(10 + random.upTo(3));
      variable.memory.push_back(random.upTo(10));
    }
    if (v % width)
      problem.edges.push_back({v - 1, v, 0});
    if (v >= width)
      problem.edges.push_back({v - width, v, 0});
  }
  return problem;
}

/// Other plans, of a problem that can be neither enumerated nor eliminated at once, differ, fit, and cost hardly more.
TEST(SolverTest, OtherPlansAreDifferentAndClose) {
  size_t found = 0;
  for (int seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    PairwiseProblem problem = grid(12, 12, seed);
    problem.capacity = memoryRange(problem).second * 0.6;
    SolveOptions options;
    options.gap = 0.01;
    options.others = 3;
    options.tables = 1e5;
    const Solution solution = solve(problem, options);
    ASSERT_TRUE(solution.fits);
    EXPECT_LE(solution.others.size(), 3u);
    found += solution.others.size();
    std::vector<std::vector<int>> all = solution.others;
    all.push_back(solution.choice);
    for (const std::vector<int> &plan : all) {
      EXPECT_EQ(std::count(all.begin(), all.end(), plan), 1);
      EXPECT_LE(memoryOf(problem, plan), problem.capacity * (1 + 1e-12));
      EXPECT_LE(costOf(problem, plan), solution.cost * (1 + options.gap) + 1e-9);
    }
  }
  EXPECT_GT(found, 0u);
}

/// Ten shapes, many seeds. The capacity is `share` of the way from the least memory to the most (unlimited if above 1).
void checkRandom(const SolveOptions &options, int seeds, double share, bool optimal = true) {
  int wrong = 0;
  for (int shape = 0; shape < shapes; ++shape)
    for (int seed = 0; seed < seeds; ++seed) {
      SCOPED_TRACE("shape " + std::to_string(shape) + ", seed " + std::to_string(seed));
      PairwiseProblem problem = Maker(static_cast<Shape>(shape), shape * 1000 + seed).problem;
      auto [least, most] = memoryRange(problem);
      if (share <= 1)
        problem.capacity = least + share * (most - least);
      double optimum = leastCost(problem, problem.capacity);
      Solution solution = solve(problem, options);
      bool exact = check(problem, solution, optimum);
      wrong += !exact;
      if (optimum < infinity) {
        EXPECT_LE(solution.cost - optimum, options.gap * solution.cost + 1e-9);
      }
    }
  if (optimal) {
    EXPECT_EQ(wrong, 0);
  }
}

SolveOptions exactOptions() {
  SolveOptions options;
  options.exhaustSmall = false;
  options.gap = 0;
  return options;
}

} // namespace

TEST(SolverTest, OptimalWithoutCap) { checkRandom(exactOptions(), 30, 2); }

TEST(SolverTest, OptimalWithCap) {
  for (double share : {0.05, 0.2, 0.4, 0.6})
    checkRandom(exactOptions(), 30, share);
}

TEST(SolverTest, OptimalUntied) {
  SolveOptions options = exactOptions();
  options.tied = false;
  checkRandom(options, 15, 2);
  checkRandom(options, 15, 0.3);
}

/// Without elimination, folding, message passing and branch and bound are left. Where memory is short nothing that has
/// some is folded.
TEST(SolverTest, OptimalWithoutElimination) {
  SolveOptions options = exactOptions();
  options.tables = 0;
  for (double share : {2.0, 0.3})
    checkRandom(options, 15, share);
}

TEST(SolverTest, OptimalByEnumeration) {
  checkRandom({}, 10, 2);
  checkRandom({}, 10, 0.3);
}

TEST(SolverTest, WithinTheGapAskedFor) {
  SolveOptions options;
  options.exhaustSmall = false;
  checkRandom(options, 20, 0.3, /*optimal=*/false);
}

/// With too little work allowed the solution is worse, but its bound stays true.
TEST(SolverTest, BoundHoldsWithFewMeans) {
  SolveOptions options = exactOptions();
  options.branches = 50;
  for (auto [rounds, tables] : {std::pair(2, 10.0), {40, 100.0}, {40, 300.0}, {40, 1000.0}}) { // elimination of a part
    options.rounds = rounds;
    options.tables = tables;
    for (int seed = 0; seed < 120; ++seed) {
      SCOPED_TRACE(std::to_string(rounds) + " rounds, tables " + std::to_string(tables) + ", seed " + std::to_string(seed));
      PairwiseProblem problem = Maker(static_cast<Shape>(seed % shapes), seed).problem;
      auto [least, most] = memoryRange(problem);
      for (double capacity : {infinity, least + 0.3 * (most - least)}) {
        problem.capacity = capacity;
        check(problem, solve(problem, options), leastCost(problem, capacity));
      }
    }
  }
}

/// Elimination of a part of the strategies, between rounds of messages: the optimum is that of the whole elimination.
TEST(SolverTest, BoundHoldsWithPartialElimination) {
  for (int seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const PairwiseProblem problem = grid(4, 12, seed);
    SolveOptions exact = exactOptions();
    exact.tied = false;
    const Solution optimum = solve(problem, exact);
    ASSERT_LE(optimum.gap(), 1e-9);
    for (double tables : {2e3, 2e4}) {
      SolveOptions few = exact;
      few.tables = tables;
      few.branches = 0;
      few.rounds = 30;
      const Solution solution = solve(problem, few);
      EXPECT_GT(solution.rounds, 0);
      EXPECT_LE(solution.bound, optimum.cost * (1 + 1e-9));
      EXPECT_GE(solution.cost, optimum.cost * (1 - 1e-9));
    }
  }
}

TEST(SolverTest, OnlyTiedIsBounded) {
  SolveOptions options;
  options.exhaustSmall = false;
  options.certify = false;
  for (int seed = 0; seed < 60; ++seed) {
    PairwiseProblem problem = Maker(static_cast<Shape>(seed % shapes), seed).problem;
    auto [least, most] = memoryRange(problem);
    problem.capacity = least + 0.5 * (most - least);
    check(problem, solve(problem, options), leastCost(problem, problem.capacity));
  }
}

/// A search ends early only where no plan costs less than its limit; otherwise its answer is the same.
TEST(SolverTest, Limit) {
  SolveOptions options = exactOptions();
  options.tied = false;
  int ended = 0, found = 0;
  for (int seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    PairwiseProblem problem = Maker(static_cast<Shape>(seed % shapes), seed).problem;
    auto [least, most] = memoryRange(problem);
    for (double capacity : {infinity, least + 0.3 * (most - least)}) {
      problem.capacity = capacity;
      const double optimum = leastCost(problem, capacity);
      for (double share : {0.5, 0.9, 1.0, 1.1}) {
        options.limit = optimum * share;
        Solution solution = solve(problem, options);
        if (solution.overLimit) {
          ++ended;
          EXPECT_GT(optimum, options.limit * (1 - 1e-9));
        } else {
          ++found;
          EXPECT_TRUE(check(problem, solution, optimum));
        }
      }
    }
  }
  EXPECT_GT(ended, 100);
  EXPECT_GT(found, 100);
}

TEST(SolverTest, NoVariables) {
  PairwiseProblem problem;
  for (bool exhaust : {false, true})
    for (double capacity : {0.0, infinity}) {
      problem.capacity = capacity;
      SolveOptions options;
      options.exhaustSmall = exhaust;
      Solution solution = solve(problem, options);
      EXPECT_TRUE(solution.fits);
      EXPECT_TRUE(solution.choice.empty());
      EXPECT_EQ(solution.cost, 0);
      EXPECT_EQ(solution.bound, 0);
    }
}

TEST(SolverTest, CapacityZero) {
  PairwiseProblem problem;
  problem.variables = {{{5, 1}, {0, 3}, -1}, {{1, 2}, {}, -1}, {{4}, {0}, -1}};
  problem.matrices = {{2, 2, {9, 0, 0, 0}}};
  problem.edges = {{0, 1, 0}};
  problem.capacity = 0;
  for (bool exhaust : {false, true}) {
    SolveOptions options;
    options.exhaustSmall = exhaust;
    Solution solution = solve(problem, options);
    EXPECT_TRUE(solution.fits);
    EXPECT_EQ(solution.choice, (std::vector<int>{0, 1, 0}));
    EXPECT_EQ(solution.cost, 11);
    EXPECT_DOUBLE_EQ(solution.bound, 11);
  }
}

TEST(SolverTest, Infeasible) {
  PairwiseProblem problem;
  problem.variables = {{{5, 1, 4}, {2, 3, 2}, -1}, {{1, 2}, {7, 7}, -1}};
  problem.capacity = 8.5;
  for (bool exhaust : {false, true}) {
    SolveOptions options;
    options.exhaustSmall = exhaust;
    Solution solution = solve(problem, options);
    EXPECT_TRUE(solution.infeasible);
    EXPECT_FALSE(solution.fits);
    EXPECT_EQ(solution.choice, (std::vector<int>{2, 0}));
    EXPECT_EQ(solution.memory, 9);
    EXPECT_EQ(solution.bound, infinity);
    EXPECT_EQ(solution.gap(), 0);
  }
}

TEST(SolverTest, NeverWorseThanAStart) {
  SolveOptions poor = exactOptions();
  poor.rounds = 1;
  poor.tables = poor.branches = 0;
  for (int seed = 0; seed < 60; ++seed) {
    PairwiseProblem problem = Maker(static_cast<Shape>(seed % shapes), seed).problem;
    auto [least, most] = memoryRange(problem);
    problem.capacity = least + 0.4 * (most - least);
    Solution best = solve(problem);
    std::vector<int> heavy(problem.variables.size());
    Solution solution = solve(problem, poor, {heavy, best.choice});
    EXPECT_TRUE(solution.fits);
    EXPECT_LE(solution.cost, best.cost);
  }
}

/// Too long to enumerate: the optimum of a path is computed by dynamic programming.
TEST(SolverTest, LongPathIsOptimal) {
  Random random(7);
  PairwiseProblem problem;
  std::vector<double> least;
  for (int v = 0; v < 600; ++v) {
    PairwiseProblem::Variable &variable = problem.variables.emplace_back();
    PairwiseProblem::Matrix &matrix = problem.matrices.emplace_back(PairwiseProblem::Matrix{7, 7, {}});
    std::vector<double> next;
    for (int s = 0; s < 7; ++s) {
      variable.cost.push_back(random.upTo(10));
      next.push_back(variable.cost[s]);
    }
    for (int k = 0; k < 49; ++k)
      matrix.entries.push_back(random.upTo(10));
    if (v > 0) {
      problem.edges.push_back({v - 1, v, v});
      for (int s = 0; s < 7; ++s) {
        double best = infinity;
        for (int r = 0; r < 7; ++r)
          best = std::min(best, least[r] + matrix.entries[r * 7 + s]);
        next[s] += best;
      }
    }
    least = next;
  }
  Solution solution = solve(problem, exactOptions());
  double optimum = *std::min_element(least.begin(), least.end());
  EXPECT_NEAR(solution.cost, optimum, 1e-6);
  EXPECT_NEAR(solution.bound, optimum, 1e-6);
}

/// Equal layers: tied, they are a small problem, whose plan is the start. With a capacity, the best plan has different
/// strategies in different layers.
TEST(SolverTest, EqualLayersAreCertified) {
  constexpr int layers = 60, width = 4, strategies = 9;
  Random random(3);
  PairwiseProblem problem;
  std::vector<PairwiseProblem::Variable> kinds(width);
  for (int k = 0; k < width; ++k) {
    kinds[k].kind = k;
    for (int s = 0; s < strategies; ++s) {
      kinds[k].cost.push_back(random.upTo(10));
      kinds[k].memory.push_back(random.upTo(1e9));
    }
  }
  for (int m = 0; m < width + 1; ++m) {
    problem.matrices.push_back({strategies, strategies, {}});
    for (int e = 0; e < strategies * strategies; ++e)
      problem.matrices.back().entries.push_back(e / strategies == e % strategies ? 0 : random.upTo(5));
  }
  for (int layer = 0; layer < layers; ++layer)
    for (int k = 0; k < width; ++k) {
      int v = layer * width + k;
      problem.variables.push_back(kinds[k]);
      if (v > 0)
        problem.edges.push_back({v - 1, v, k});
      if (k == width - 1)
        problem.edges.push_back({v, v - k, width}); // from the layer's end to its start
    }
  double loose = solve(problem).memory, least = memoryRange(problem).first;
  problem.capacity = least + 0.3 * (loose - least);
  for (bool tied : {true, false}) {
    SolveOptions options;
    options.tied = tied;
    Solution solution = solve(problem, options);
    EXPECT_TRUE(solution.fits);
    EXPECT_GT(solution.price, 0);
    EXPECT_LE(solution.gap(), 1e-3);
    EXPECT_LE(solution.bound, solution.cost);
    EXPECT_DOUBLE_EQ(solution.cost, costOf(problem, solution.choice));
  }
}

TEST(SolverTest, PriceOfMemory) {
  // Twenty equal variables: a strategy that saves 10 bytes costs 5 us more, and half of the saving is needed.
  PairwiseProblem problem;
  for (int v = 0; v < 20; ++v)
    problem.variables.push_back({{1, 6}, {10, 0}, 0});
  problem.capacity = 100;
  SolveOptions options = exactOptions();
  Solution solution = solve(problem, options);
  EXPECT_DOUBLE_EQ(solution.cost, 10 * 1 + 10 * 6);
  EXPECT_DOUBLE_EQ(solution.price, 0.5);
  EXPECT_NEAR(solution.bound, solution.cost, 1e-6);
}

TEST(SolverTest, Deterministic) {
  for (int seed = 0; seed < 30; ++seed) {
    PairwiseProblem problem = Maker(static_cast<Shape>(seed % shapes), seed).problem;
    problem.capacity = memoryRange(problem).first * 1.5 + 1;
    Solution first = solve(problem, exactOptions()), second = solve(problem, exactOptions());
    EXPECT_EQ(first.choice, second.choice);
    EXPECT_EQ(first.bound, second.bound);
    EXPECT_EQ(first.rounds, second.rounds);
  }
}
