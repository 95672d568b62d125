#include "passes/Planning/Groups.h"

#include "llvm/ADT/IntEqClasses.h"

#include <map>
#include <set>

using namespace divisi;
using namespace divisi::dist;
using namespace divisi::planning;

bool planning::contracts(const Problem::Op &op) {
  return llvm::any_of(op.rule.factors, [](const auto &f) { return f.reduction || f.indexed || f.windowed; });
}

namespace {

class Grouping {
public:
  Grouping(const Problem &problem, bool evaluation, Groups &result)
      : problem(problem), result(result), inSearch(problem.ops.size()), producer(problem.tensors.size(), -1),
        users(problem.tensors.size()), first(problem.ops.size()), members(problem.ops.size()) {
    int factors = 0;
    for (auto [i, op] : llvm::enumerate(problem.ops)) {
      first[i] = factors;
      factors += op.rule.factors.size();
      bool splat = op.results.size() == 1 && problem.tensors[op.results[0]].splat;
      inSearch[i] = (op.forward || op.seldom) == evaluation && !splat;
      for (int tensor : op.results)
        producer[tensor] = i;
      for (int tensor : std::set<int>(op.operands.begin(), op.operands.end()))
        users[tensor].push_back(i);
    }
    this->factors.grow(factors);
  }

  void run() {
    findPhases();
    findSums();
    joinNeighbours();
    collect();
  }

private:
  bool light(int op) const { return !contracts(problem.ops[op]) && !graph::isCall(problem.ops[op].form); }

  /// Where the forward pass ends, which operations belong only to the update, and how many contractions lie before each operation.
  void findPhases() {
    std::set<int> read;
    for (const Problem::Output &output : problem.outputs) {
      if (output.loss && producer[output.tensor] >= 0 && inSearch[producer[output.tensor]])
        result.loss = std::max(result.loss, producer[output.tensor]);
      if (output.state < 0 || output.held)
        read.insert(output.tensor);
    }
    for (const Problem::Op &op : problem.ops)
      if (op.message)
        read.insert(op.operands.begin(), op.operands.end());
    depth.assign(problem.ops.size(), 0);
    for (auto [i, op] : llvm::enumerate(problem.ops))
      for (int tensor : op.operands)
        if (int p = producer[tensor]; p >= 0)
          depth[i] = std::max(depth[i], depth[p] + (light(p) ? 0 : 1));
    result.late.assign(problem.ops.size(), true);
    for (int i = problem.ops.size() - 1; i >= 0; --i)
      for (int tensor : problem.ops[i].results) {
        if (read.count(tensor) || problem.tensors[tensor].named())
          result.late[i] = false;
        for (int user : users[tensor])
          if (!result.late[user] || !light(user))
            result.late[i] = false;
      }
  }

  /// Sums that may stay pending: of contractions, and what linear operations make of them alone.
  void findSums() {
    std::vector<bool> pending(problem.tensors.size());
    sums.assign(problem.ops.size(), false);
    for (auto [i, op] : llvm::enumerate(problem.ops)) {
      bool linear = op.rule.linear == Linear::all || op.rule.linear == Linear::movement;
      int64_t largest = 0;
      for (int tensor : op.operands) {
        if (problem.tensors[tensor].zero && op.rule.linear == Linear::all)
          continue;
        linear &= pending[tensor] && users[tensor].size() == 1;
        largest = std::max(largest, problem.tensors[tensor].bytes() / problem.tensors[tensor].elementBytes);
      }
      for (int tensor : op.results)
        linear &= problem.tensors[tensor].bytes() / problem.tensors[tensor].elementBytes <= largest;
      sums[i] = linear && light(i);
      bool sum = sums[i] || llvm::any_of(op.rule.factors, [](const auto &f) { return f.reduction == Reduction::sum; });
      for (int tensor : op.results)
        pending[tensor] = sum;
    }
  }

  /// The factors of two operations that run through a tensor between them; nothing if they are not one to one.
  std::optional<std::vector<std::pair<int, int>>> match(int a, int b, int tensor) {
    const Problem::Op &from = problem.ops[a], &to = problem.ops[b];
    std::vector<std::pair<int, int>> pairs;
    for (auto [t, dims] : llvm::zip(from.results, from.rule.results))
      for (auto [u, others] : llvm::zip(to.operands, to.rule.operands)) {
        if (t != tensor || u != tensor)
          continue;
        for (auto [mine, theirs] : llvm::zip(dims, others)) {
          if (mine.size() != theirs.size() || mine.empty())
            return std::nullopt;
          for (auto [f, g] : llvm::zip(mine, theirs)) {
            if (from.rule.factors[f].size != to.rule.factors[g].size)
              return std::nullopt;
            pairs.push_back({first[a] + f, first[b] + g});
          }
        }
      }
    return pairs.empty() ? std::nullopt : std::make_optional(pairs);
  }

  void joinNeighbours() {
    for (auto [b, op] : llvm::enumerate(problem.ops))
      for (int tensor : op.operands) {
        int a = producer[tensor];
        if (a < 0 || !inSearch[a] || !inSearch[b] || !light(a) || !light(b) || sums[a] != sums[b] ||
            depth[a] != depth[b] || problem.ops[a].repeats != problem.ops[b].repeats ||
            result.late[a] != result.late[b] || (a <= result.loss) != ((int)b <= result.loss))
          continue;
        auto pairs = match(a, b, tensor);
        if (!pairs || members.findLeader(a) == members.findLeader(b))
          continue; // (in one group already: what this edge costs is priced in the group)
        members.join(a, b);
        for (auto [f, g] : *pairs)
          factors.join(f, g);
      }
  }

  void collect() {
    result.groupOf.assign(problem.ops.size(), -1);
    std::map<int, int> numbers;
    for (size_t i = 0; i < problem.ops.size(); ++i) {
      if (!inSearch[i])
        continue;
      auto [it, fresh] = numbers.try_emplace(members.findLeader(i), result.groups.size());
      if (fresh)
        result.groups.emplace_back().sums = sums[i];
      result.groupOf[i] = it->second;
      result.groups[it->second].ops.push_back(i);
    }
    findReaders();
    for (Group &group : result.groups) {
      std::map<int, int> known;
      for (int op : group.ops) {
        auto &list = group.factorOf.emplace_back();
        for (size_t f = 0; f < problem.ops[op].rule.factors.size(); ++f) {
          auto [it, fresh] = known.try_emplace(factors.findLeader(first[op] + f), group.factors);
          group.factors += fresh;
          list.push_back(it->second);
        }
      }
    }
  }

  void findReaders() {
    result.maker.assign(problem.tensors.size(), -1);
    result.outside.assign(problem.tensors.size(), false);
    for (auto [i, op] : llvm::enumerate(problem.ops)) {
      if (result.groupOf[i] < 0)
        continue;
      for (int t : op.results)
        result.maker[t] = i;
      for (int t : op.operands)
        if (int made = result.maker[t]; made >= 0 && result.groupOf[made] != result.groupOf[i])
          result.outside[t] = true;
    }
    for (const Problem::Output &output : problem.outputs)
      result.outside[output.tensor] = true;
  }

  const Problem &problem;
  Groups &result;
  std::vector<bool> inSearch, sums;
  std::vector<int> producer;
  std::vector<llvm::SmallVector<int, 4>> users;
  std::vector<int> first, depth;       // by operation: the number of its first factor; contractions before it
  llvm::IntEqClasses members, factors; // of operations, of their factors; a class is known by its least member
};
} // namespace

Groups::Groups(const Problem &problem, bool evaluation) { Grouping(problem, evaluation, *this).run(); }
