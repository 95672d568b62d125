#include "passes/Planning/Search/TieAlike.h"

#include "passes/Planning/Search/Numbers.h"

#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/STLExtras.h"

using namespace divisi;
using namespace divisi::planning;

template <typename... Parts> static uint64_t hash(const Parts &...parts) {
  return static_cast<size_t>(llvm::hash_combine(parts...));
}

/// Refinement of colours (Weisfeiler and Leman), each a hash of a variable's look and of those of its neighbours. The order of
/// neighbours is of no account: their hashes are summed. (Were two variables that differ given one colour, a plan might be worse.)
void planning::tieAlike(PairwiseProblem &problem, const std::vector<int> &looks) {
  auto &variables = problem.variables;
  std::vector<uint64_t> colors, around;
  for (auto [look, variable] : llvm::zip(looks, variables))
    colors.push_back(hash(look, variable.cost.size()));
  for (int round = 0; round < 3; ++round) {
    around.assign(variables.size(), 0);
    for (const auto &e : problem.edges) {
      around[e.from] += hash(0, e.matrix, colors[e.to]);
      around[e.to] += hash(1, e.matrix, colors[e.from]);
    }
    for (auto [color, sum] : llvm::zip(colors, around))
      color = hash(color, sum);
  }
  Numbers<uint64_t> kinds;
  for (auto [variable, color] : llvm::zip(variables, colors))
    variable.kind = kinds.of(color);
}
