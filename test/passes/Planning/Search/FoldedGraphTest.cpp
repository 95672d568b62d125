#include "RandomGraphs.h"

#include "passes/Planning/Search/FoldedGraph.h"

#include "gtest/gtest.h"

#include <functional>
#include <limits>
#include <map>

using namespace divisi;
using namespace divisi::planning;
using namespace divisi::planning::test;

namespace {

/// The least cost of all plans, by enumeration.
double leastCost(const Graph &graph) {
  double least = std::numeric_limits<double>::infinity();
  forEachPlan(graph, [&](const std::vector<int> &choice) { least = std::min(least, graph.cost(choice)); });
  return least;
}

/// The part of a plan that concerns the rest.
std::vector<int> contract(const FoldedGraph &folded, const std::vector<int> &choice) {
  std::vector<int> result(folded.graph().variables.size());
  for (size_t v = 0; v < choice.size(); ++v)
    if (folded.variables()[v] >= 0)
      result[folded.variables()[v]] = choice[v];
  return result;
}

class FoldedGraphTest : public testing::TestWithParam<int> {
protected:
  /// Calls back with random graphs of one shape.
  static void forEachGraph(const std::function<void(const Graph &)> &check) {
    test::forEachGraph(static_cast<Shape>(GetParam()), 30, check);
  }
};

TEST_P(FoldedGraphTest, LeastCostStays) {
  forEachGraph([](const Graph &whole) {
    for (bool roomy : {false, true}) {
      FoldedGraph folded(whole, roomy);
      EXPECT_NEAR(leastCost(folded.graph()), leastCost(whole), 1e-9);
    }
  });
}

TEST_P(FoldedGraphTest, ExpandsToTheCheapestPlanWithTheChoice) {
  forEachGraph([](const Graph &whole) {
    FoldedGraph folded(whole, /*roomy=*/true);
    std::map<std::vector<int>, double> least;
    forEachPlan(whole, [&](const std::vector<int> &choice) {
      auto [it, fresh] = least.try_emplace(contract(folded, choice), whole.cost(choice));
      it->second = std::min(it->second, whole.cost(choice));
    });
    forEachPlan(folded.graph(), [&](const std::vector<int> &choice) {
      const std::vector<int> plan = folded.expand(choice);
      EXPECT_EQ(contract(folded, plan), choice);
      EXPECT_NEAR(whole.cost(plan), least.at(choice), 1e-9);
      EXPECT_NEAR(folded.graph().cost(choice), least.at(choice), 1e-9);
    });
  });
}

TEST_P(FoldedGraphTest, MemoryIsKept) {
  forEachGraph([](const Graph &whole) {
    FoldedGraph exact(whole, /*roomy=*/false), roomy(whole, /*roomy=*/true);
    forEachPlan(exact.graph(), [&](const std::vector<int> &choice) {
      EXPECT_NEAR(exact.graph().memory(choice), whole.memory(exact.expand(choice)), 1e-9);
    });
    EXPECT_NEAR(roomy.graph().mostMemory(), whole.mostMemory(), 1e-9);
  });
}

/// Trees, paths and cycles leave nothing where memory is of no account.
TEST(FoldedTreeTest, NothingIsLeft) {
  for (Shape shape : {Shape::Path, Shape::Tree, Shape::Star, Shape::Cycle}) {
    Graph raw = rawGraph(Maker(shape, 1).problem);
    Graph whole = restrict(raw, allStrategies(raw)).graph;
    FoldedGraph folded(whole, /*roomy=*/true);
    EXPECT_TRUE(folded.graph().variables.empty());
    EXPECT_NEAR(whole.cost(folded.expand({})), leastCost(whole), 1e-9);
  }
}

/// Two large variables, and others between them: one of few strategies would leave a larger edge, unless another has
/// already been eliminated.
TEST(FoldedTreeTest, EdgesDoNotGrow) {
  for (auto [sizes, left] : {std::pair<std::vector<int>, size_t>{{2}, 3}, {{30}, 2}, {{2, 30}, 2}, {{30, 2}, 2}}) {
    PairwiseProblem problem;
    Random random(7);
    auto addVariable = [&](int size) {
      problem.variables.emplace_back().cost.resize(size);
      return (int)problem.variables.size() - 1;
    };
    auto addEdge = [&](int from, int to) {
      auto sizeOf = [&](int v) { return (int)problem.variables[v].cost.size(); };
      auto &matrix = problem.matrices.emplace_back(PairwiseProblem::Matrix{sizeOf(from), sizeOf(to), {}});
      for (int k = 0; k < matrix.rows * matrix.columns; ++k)
        matrix.entries.push_back(random.upTo(10));
      problem.edges.push_back({from, to, (int)problem.matrices.size() - 1});
    };
    // The large ones have memory, and stay.
    for (int v : {addVariable(40), addVariable(40)})
      for (int s = 0; s < 40; ++s)
        problem.variables[v].memory.push_back(s);
    for (int size : sizes) {
      const int v = addVariable(size);
      addEdge(0, v);
      addEdge(v, 1);
    }
    Graph raw = rawGraph(problem);
    EXPECT_EQ(FoldedGraph(restrict(raw, allStrategies(raw)).graph, /*roomy=*/false).graph().variables.size(), left);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, FoldedGraphTest, testing::Range(0, shapes));

} // namespace
