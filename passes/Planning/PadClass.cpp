#include "passes/Planning/PadClass.h"

#include <deque>

using namespace divisi;
using namespace divisi::dist;
using namespace divisi::planning;

int planning::soleFactor(const ShardingRule &rule, llvm::ArrayRef<int> list) {
  int sole = -1;
  for (int factor : list) {
    if (rule.factors[factor].size == 1)
      continue;
    if (sole >= 0)
      return -1;
    sole = factor;
  }
  return sole;
}

PadClass::PadClass(const Problem &problem, const PadRequest &request)
    : oldSize(problem.tensors[request.tensor].shape[request.dim]),
      newSize((oldSize + request.parts - 1) / request.parts * request.parts) {
  collect(problem, {request.tensor, request.dim});
}

llvm::SmallVector<int> PadClass::dimsOf(int tensor) const {
  llvm::SmallVector<int> dims;
  for (auto it = members.lower_bound({tensor, 0}); it != members.end() && it->first == tensor; ++it)
    dims.push_back(it->second);
  return dims;
}

/// Whether the factor may be padded in this operation: it may be sharded, and is alone in every dimension in which it
/// occurs.
bool PadClass::connects(const Problem &problem, const Problem::Op &op, int factor) const {
  const auto &f = op.rule.factors[factor];
  if (f.whole || f.windowed || f.size != oldSize)
    return false;
  auto pure = [&](const auto &tensors, const auto &dimsOf) {
    for (auto [tensor, dims] : llvm::zip(tensors, dimsOf))
      for (auto [d, list] : llvm::enumerate(dims))
        if (llvm::is_contained(list, factor) &&
            (soleFactor(op.rule, list) != factor || problem.tensors[tensor].shape[d] != oldSize))
          return false;
    return true;
  };
  return pure(op.operands, op.rule.operands) && pure(op.results, op.rule.results);
}

void PadClass::collect(const Problem &problem, std::pair<int, int> start) {
  std::vector<llvm::SmallVector<int, 4>> users(problem.tensors.size());
  for (auto [i, op] : llvm::enumerate(problem.ops))
    for (const auto *list : {&op.operands, &op.results})
      for (int tensor : *list)
        users[tensor].push_back(i);
  std::multimap<int, int> partners;
  problem.forEachTie([&](int a, int b) {
    partners.emplace(a, b);
    partners.emplace(b, a);
  });
  std::deque<std::pair<int, int>> work;
  auto add = [&](int tensor, int dim) {
    if (problem.tensors[tensor].shape[dim] == oldSize && members.insert({tensor, dim}).second)
      work.push_back({tensor, dim});
  };
  add(start.first, start.second);
  while (!work.empty()) {
    auto [tensor, dim] = work.front();
    work.pop_front();
    for (auto [it, end] = partners.equal_range(tensor); it != end; ++it)
      add(it->second, dim);
    for (int number : users[tensor]) {
      const Problem::Op &op = problem.ops[number];
      auto look = [&](const auto &tensors, const auto &dims) {
        for (auto [t, list] : llvm::zip(tensors, dims))
          if (int f = t == tensor ? soleFactor(op.rule, list[dim]) : -1; f >= 0 && connects(problem, op, f))
            factors.insert({number, f});
      };
      look(op.operands, op.rule.operands);
      look(op.results, op.rule.results);
      for (auto it = factors.lower_bound({number, 0}); it != factors.end() && it->first == number; ++it) {
        auto spread = [&](const auto &tensors, const auto &dims) {
          for (auto [t, list] : llvm::zip(tensors, dims))
            for (size_t d = 0; d < list.size(); ++d)
              if (llvm::is_contained(list[d], it->second))
                add(t, (int)d);
        };
        spread(op.operands, op.rule.operands);
        spread(op.results, op.rule.results);
      }
    }
  }
}
