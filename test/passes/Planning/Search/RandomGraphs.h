#pragma once
#include "RandomProblems.h"

#include "passes/Planning/Search/Graph.h"

#include "gtest/gtest.h"

#include <functional>
#include <string>

namespace divisi::planning::test {

/// Calls back with every plan of a small graph.
inline void forEachPlan(const Graph &graph, const std::function<void(const std::vector<int> &)> &visit) {
  std::vector<int> choice(graph.variables.size());
  std::function<void(size_t)> choose = [&](size_t v) {
    if (v == choice.size())
      return visit(choice);
    for (choice[v] = 0; choice[v] < graph.variables[v].size(); ++choice[v])
      choose(v + 1);
  };
  choose(0);
}

/// Calls back with random graphs of one shape.
inline void forEachGraph(Shape shape, int seeds, const std::function<void(const Graph &)> &test) {
  for (int seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Graph raw = rawGraph(Maker(shape, seed).problem);
    test(restrict(raw, allStrategies(raw)).graph);
  }
}

} // namespace divisi::planning::test
