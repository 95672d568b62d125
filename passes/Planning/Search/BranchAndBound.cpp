#include "passes/Planning/Search/BranchAndBound.h"

#include <algorithm>
#include <cmath>

using namespace divisi;
using namespace divisi::planning;

namespace {

class Search {
public:
  Search(const Graph &graph, const TreeReweighted &messages, double price, double capacity, double mostWork,
         GraphPlan &best)
      : graph(graph), messages(messages), price(price), capacity(capacity), workLeft(mostWork), best(best),
        choice(graph.variables.size()), candidates(graph.variables.size()), leastMemory(graph.variables.size() + 1) {
    for (size_t v = graph.variables.size(); v-- > 0;) {
      const auto &bytes = graph.variables[v].memory;
      leastMemory[v] = leastMemory[v + 1] + *std::min_element(bytes.begin(), bytes.end());
    }
    offset = price > 0 ? price * capacity : 0;
  }

  bool run() { return descend(0, graph.fixedCost + price * graph.fixedMemory, graph.fixedMemory); }

private:
  /// `value`: cost + price x memory of the variables chosen so far, and the messages to them from all others.
  bool descend(int v, double value, double memory) {
    if (v == static_cast<int>(choice.size())) {
      // The value minus the price of memory is the cost; summed again, it does not depend on the order of the search.
      if (value - price * memory < best.cost)
        if (double cost = graph.cost(choice); cost < best.cost)
          best = {choice, cost, graph.memory(choice)};
      return true;
    }
    const Graph::Variable &at = graph.variables[v];
    workLeft -= static_cast<double>(at.cost.size() * (1 + at.below.size() + at.above.size()));
    if (workLeft < 0)
      return false;
    auto &list = candidates[v];
    list.clear();
    for (int s = 0; s < at.size(); ++s) {
      double next = value + at.cost[s] + price * at.memory[s];
      for (int e : at.below) {
        int from = choice[graph.edges[e].from];
        next += graph.edges[e].tables->direct.row(from)[s] - messages.messageBack(e)[from];
      }
      for (int e : at.above)
        next += messages.messageBack(e)[s];
      list.emplace_back(next, s);
    }
    std::sort(list.begin(), list.end());
    for (auto [next, s] : list) {
      if (next + messages.boundFrom(v + 1) - offset >= best.cost - 1e-10 * std::abs(best.cost))
        return true;
      if (!withinCapacity(memory + at.memory[s] + leastMemory[v + 1], capacity))
        continue;
      choice[v] = s;
      if (!descend(v + 1, next, memory + at.memory[s]))
        return false;
    }
    return true;
  }

  const Graph &graph;
  const TreeReweighted &messages;
  double price, capacity, offset = 0;
  double workLeft;
  GraphPlan &best;
  std::vector<int> choice;
  std::vector<std::vector<std::pair<double, int>>> candidates; // by variable
  std::vector<double> leastMemory;                             // of a variable and all later ones
};

} // namespace

bool planning::branchAndBound(const Graph &graph, const TreeReweighted &messages, double price, double capacity,
                              double mostWork, GraphPlan &best) {
  return Search(graph, messages, price, capacity, mostWork, best).run();
}
