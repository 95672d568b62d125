#include "RandomProblems.h"

#include "passes/Planning/Search/FoldedGraph.h"

#include "gtest/gtest.h"

#include <functional>
#include <limits>
#include <map>

using namespace divisi;
using namespace divisi::planning;
using namespace divisi::planning::test;

namespace {

void forEachPlan(const Graph &graph, const std::function<void(const std::vector<int> &)> &visit) {
  std::vector<int> choice(graph.variables.size());
  std::function<void(size_t)> choose = [&](size_t v) {
    if (v == choice.size())
      return visit(choice);
    for (choice[v] = 0; choice[v] < graph.variables[v].size(); ++choice[v])
      choose(v + 1);
  };
  choose(0);
}

/// The least cost of all plans, by enumeration.
double leastCost(const Graph &graph) {
  double least = std::numeric_limits<double>::infinity();
  forEachPlan(graph, [&](const std::vector<int> &choice) { least = std::min(least, graph.cost(choice)); });
  return least;
}

class FoldedGraphTest : public testing::TestWithParam<int> {
protected:
  /// Calls back with random graphs of one shape.
  static void forEachGraph(const std::function<void(const Graph &)> &test) {
    for (int seed = 0; seed < 30; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      Graph raw = rawGraph(Maker(static_cast<Shape>(GetParam()), seed).problem);
      test(restrict(raw, allStrategies(raw)).graph);
    }
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
      auto [it, fresh] = least.try_emplace(folded.contract(choice), whole.cost(choice));
      it->second = std::min(it->second, whole.cost(choice));
    });
    forEachPlan(folded.graph(), [&](const std::vector<int> &choice) {
      const std::vector<int> plan = folded.expand(choice);
      EXPECT_EQ(folded.contract(plan), choice);
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

INSTANTIATE_TEST_SUITE_P(Shapes, FoldedGraphTest, testing::Range(0, shapes));

} // namespace
