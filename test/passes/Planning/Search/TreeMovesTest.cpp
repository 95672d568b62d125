#include "RandomGraphs.h"

#include "passes/Planning/Search/TreeMoves.h"

#include "gtest/gtest.h"

#include <functional>
#include <limits>

using namespace divisi::planning;
using namespace divisi::planning::test;

namespace {

constexpr double price = 0.7; // of memory

double valueOf(const Graph &graph, const std::vector<int> &choice) {
  return graph.cost(choice) + price * graph.memory(choice);
}

/// The least value of all plans, by enumeration.
double leastValue(const Graph &graph) {
  double least = std::numeric_limits<double>::infinity();
  forEachPlan(graph, [&](const std::vector<int> &choice) { least = std::min(least, valueOf(graph, choice)); });
  return least;
}

class TreeMovesTest : public testing::TestWithParam<int> {
protected:
  Shape shape() const { return static_cast<Shape>(GetParam()); }
  /// Calls back with random graphs of the shape, and the plan of the first strategies.
  void forEachGraph(const std::function<void(const Graph &, std::vector<int>)> &check) const {
    test::forEachGraph(shape(), 60, [&](const Graph &graph) { check(graph, std::vector<int>(graph.variables.size())); });
  }
};

TEST_P(TreeMovesTest, NeverDearerAndSettled) {
  forEachGraph([](const Graph &graph, std::vector<int> choice) {
    double before = valueOf(graph, choice);
    for (int call = 0; call < 4; ++call) {
      improveByTrees(graph, choice, price);
      const double after = valueOf(graph, choice);
      EXPECT_LE(after, before + 1e-9);
      before = after;
    }
    const std::vector<int> last = choice;
    improveByTrees(graph, choice, price);
    EXPECT_EQ(choice, last);
  });
}

TEST_P(TreeMovesTest, ForestsAreSolvedExactly) {
  if (shape() != Shape::Path && shape() != Shape::Tree && shape() != Shape::Star && shape() != Shape::Empty)
    GTEST_SKIP() << "has cycles";
  forEachGraph([](const Graph &graph, std::vector<int> choice) {
    improveByTrees(graph, choice, price);
    EXPECT_NEAR(valueOf(graph, choice), leastValue(graph), 1e-6);
  });
}

/// A single move from 0, 0, 0, 0 on this cycle is dearer, that of three neighbours together is the optimum.
TEST(TreeMoves, MovesNeighboursTogether) {
  PairwiseProblem problem;
  for (int v = 0; v < 4; ++v)
    problem.variables.push_back({{v == 3 ? 0.0 : 1.0, v == 3 ? 100.0 : 0.0}, {}});
  problem.matrices.push_back({2, 2, {0, 2, 2, 0}}); // equal strategies cost nothing
  problem.matrices.push_back({2, 2, {0, 1, 1, 0}});
  problem.edges = {{0, 1, 0}, {1, 2, 0}, {2, 3, 1}, {0, 3, 1}};
  const Graph raw = rawGraph(problem);
  const Graph graph = restrict(raw, allStrategies(raw)).graph;
  std::vector<int> choice(4);
  improveByTrees(graph, choice, 0);
  EXPECT_EQ(choice, (std::vector<int>{1, 1, 1, 0}));
}

INSTANTIATE_TEST_SUITE_P(Shapes, TreeMovesTest, testing::Range(0, shapes));

} // namespace
