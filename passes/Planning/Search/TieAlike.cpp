#include "passes/Planning/Search/TieAlike.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <array>

using namespace divisi;
using namespace divisi::planning;

using Text = std::vector<int>;

void planning::tieAlike(PairwiseProblem &problem, const std::vector<int> &looks) {
  auto &variables = problem.variables;
  std::vector<int> colors;
  Numbers<Text> first;
  for (auto [look, variable] : llvm::zip(looks, variables))
    colors.push_back(first.of({look, (int)variable.cost.size()}));
  for (int round = 0; round < 3; ++round) {
    std::vector<std::vector<std::array<int, 3>>> around(variables.size());
    for (const auto &e : problem.edges) {
      around[e.from].push_back({0, e.matrix, colors[e.to]});
      around[e.to].push_back({1, e.matrix, colors[e.from]});
    }
    Numbers<Text> next;
    std::vector<int> refined;
    for (size_t v = 0; v < variables.size(); ++v) {
      std::sort(around[v].begin(), around[v].end());
      Text text = {colors[v]};
      for (const auto &entry : around[v])
        text.insert(text.end(), entry.begin(), entry.end());
      refined.push_back(next.of(text));
    }
    colors = std::move(refined);
  }
  for (size_t v = 0; v < variables.size(); ++v)
    variables[v].kind = colors[v];
}
