#include "passes/Planning/Search/TieAlike.h"

#include "passes/Planning/Search/Numbers.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <array>
#include <numeric>

using namespace divisi;
using namespace divisi::planning;

using Text = std::vector<int>;

void planning::tieAlike(PairwiseProblem &problem, const std::vector<int> &looks) {
  auto &variables = problem.variables;
  std::vector<int> colors;
  Numbers<Text> first;
  for (auto [look, variable] : llvm::zip(looks, variables))
    colors.push_back(first.of({look, (int)variable.cost.size()}));
  std::vector<int> begin(variables.size() + 1); // of a variable's neighbors
  for (const auto &e : problem.edges)
    ++begin[e.from + 1], ++begin[e.to + 1];
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  std::vector<std::array<int, 3>> around(begin.back());
  Text text;
  for (int round = 0; round < 3; ++round) {
    std::vector<int> next(begin.begin(), begin.end() - 1);
    for (const auto &e : problem.edges) {
      around[next[e.from]++] = {0, e.matrix, colors[e.to]};
      around[next[e.to]++] = {1, e.matrix, colors[e.from]};
    }
    Numbers<Text> kinds;
    std::vector<int> refined;
    for (size_t v = 0; v < variables.size(); ++v) {
      std::sort(around.begin() + begin[v], around.begin() + begin[v + 1]);
      text.assign(1, colors[v]);
      for (int i = begin[v]; i < begin[v + 1]; ++i)
        text.insert(text.end(), around[i].begin(), around[i].end());
      refined.push_back(kinds.of(text));
    }
    colors = std::move(refined);
  }
  for (size_t v = 0; v < variables.size(); ++v)
    variables[v].kind = colors[v];
}
