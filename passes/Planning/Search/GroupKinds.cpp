#include "passes/Planning/Search/GroupKinds.h"

#include "passes/Planning/Search/Numbers.h"

#include "llvm/ADT/DenseMap.h"

using namespace divisi;
using namespace divisi::dist;
using namespace divisi::planning;

namespace {

using Text = std::vector<int>; // what can be compared

/// Describes groups.
class Describer {
public:
  Describer(const Problem &problem, const Groups &groups, const FusedProblem &fused, const GroupKinds &kinds)
      : problem(problem), groups(groups), fused(fused), facts(kinds.facts) {}

  Text describe(const Group &group) {
    Text text = {group.sums};
    llvm::SmallDenseMap<int, int> local; // tensors of the group
    for (auto [m, op] : llvm::enumerate(group.ops)) {
      const Problem::Op &entry = problem.ops[op];
      text.insert(text.end(), {-5, ruleNumber(op), (int)(entry.flops >> 31), (int)(entry.flops & 0x7fffffff)});
      text.insert(text.end(), group.factorOf[m].begin(), group.factorOf[m].end());
      text.insert(text.end(), {-6, (int)entry.repeats,
                               fused.launches[op] << 6 | (int)entry.form << 2 | entry.precision});
      for (auto [operand, share] : fused.readsOf[op])
        text.insert(text.end(), {operand, (int)(share * (1 << 30))});
      for (const auto *list : {&entry.operands, &entry.results})
        for (int t : *list) {
          auto [it, fresh] = local.try_emplace(t, local.size());
          text.push_back(it->second);
          if (fresh)
            addTensor(t, text);
        }
    }
    return text;
  }

private:
  int ruleNumber(int op) {
    const ShardingRule &rule = problem.ops[op].rule;
    Text text = {(int)rule.linear, rule.accumulator};
    for (const auto &factor : rule.factors)
      text.insert(text.end(), {(int)factor.size, factor.reduction ? (int)*factor.reduction : -1,
                               factor.whole | factor.indexed << 1 | factor.windowed << 2, (int)factor.least});
    for (const auto *list : {&rule.operands, &rule.results}) {
      text.push_back((int)list->size());
      for (const auto &dims : *list) {
        text.push_back(-3);
        for (const auto &factors : dims) {
          text.insert(text.end(), factors.begin(), factors.end());
          text.push_back(-4);
        }
      }
    }
    return rules.of(text);
  }

  void addTensor(int t, Text &text) const {
    const Problem::Tensor &tensor = problem.tensors[t];
    text.push_back((int)tensor.elementBytes | tensor.splat << 8 | tensor.zero << 9 | groups.outside[t] << 10 |
                   facts[t].whole << 11 | fused.stored[t] << 12);
    text.insert(text.end(), tensor.shape.begin(), tensor.shape.end());
  }

  const Problem &problem;
  const Groups &groups;
  const FusedProblem &fused;
  const std::vector<GroupKinds::Facts> &facts;
  Numbers<Text> rules;
};
} // namespace

GroupKinds::GroupKinds(const Problem &problem, const Groups &groups, const FusedProblem &fused)
    : facts(problem.tensors.size()) {
  std::vector<int> last(problem.tensors.size(), -1); // group that read it last
  for (auto [i, op] : llvm::enumerate(problem.ops)) {
    const int g = groups.groupOf[i];
    if (g < 0)
      continue;
    for (int t : op.operands) {
      facts[t].shared |= last[t] >= 0 && last[t] != g;
      last[t] = g;
      facts[t].persists |= groups.isEarly(t) && groups.late[i];
    }
  }
  for (const Problem::Output &output : problem.outputs)
    facts[output.tensor].whole |= output.state < 0;
  for (auto [t, f] : llvm::enumerate(facts))
    f.persists |= fused.kept[t];
  Describer describer(problem, groups, fused, *this);
  Numbers<Text> numbers;
  for (const Group &group : groups.groups)
    kindOf.push_back(numbers.of(describer.describe(group)));
  count = (int)numbers.size();
}
