#include "passes/Planning/Search/SearchSpace.h"

#include "passes/Planning/Expansion.h"
#include "passes/Planning/Search/GroupStrategies.h"
#include "passes/Planning/Search/ReshardPrices.h"
#include "passes/Planning/Search/TieAlike.h"

#include <array>

using namespace divisi;
using namespace divisi::dist;
using namespace divisi::planning;

namespace {

using Text = std::vector<int>; // what can be compared

/// Groups with the same operations share their strategies and costs.
struct Template {
  std::vector<GroupStrategy> strategies;
  std::vector<double> cost;
  using Slots = llvm::SmallVector<std::pair<int, int>, 2>; // positions, each with a number of `Tables::slots`
  std::vector<Slots> operands, results;                    // by member
};

/// What spaces of one problem and mesh have in common, whatever is pinned.
struct Tables {
  Numbers<Text> slots;
  std::vector<std::shared_ptr<const Template>> templates; // by kind of groups
  ReshardPrices reshards;
};
} // namespace

struct SearchSpace::Impl {
  enum class Kind { group, argument, shared };
  struct Meaning {
    Kind kind;
    int index; // of the group or the tensor
    const Template *strategies = nullptr;
    std::vector<Sharding> shardings;
  };
  const Groups &groups;
  const FusedProblem &fused;
  const GroupKinds &kinds;
  std::vector<Meaning> meanings; // by variable
  Tables tables;
  std::vector<int> rootOf;                        // by tensor: the first of those that are split alike
  std::map<int, llvm::SmallVector<int, 2>> alike; // by root: those tensors
  PairwiseProblem whole;                          // without overlap, and with nothing laid
  std::vector<bool> hideable;                     // by matrix: of communication that may overlap
  std::vector<int> looks;                         // by variable: a number that those have in common that may be tied
  std::map<int, int> arguments;                   // by root: the variable

  Impl(const Groups &groups, const FusedProblem &fused, const GroupKinds &kinds)
      : groups(groups), fused(fused), kinds(kinds) {}
  std::optional<std::vector<int>> laidStrategies(const std::map<int, Sharding> &places) const;
};

class SearchSpace::Builder {
public:
  Builder(const Problem &problem, const CostModel &costs, const std::map<int, Sharding> &pins, Impl &impl)
      : problem(problem), costs(costs), mesh(costs.mesh), pins(pins), impl(impl), tables(impl.tables), whole(impl.whole),
        facts(impl.kinds.facts), producer(problem.tensors.size(), {-1, -1}), readers(problem.tensors.size()) {}

  void run() {
    tables.templates.resize(impl.kinds.count);
    for (auto [g, group] : llvm::enumerate(impl.groups.groups))
      addGroup(g, group);
    for (size_t t = 0; t < problem.tensors.size(); ++t)
      connect(t);
    for (const Problem::Output &output : problem.outputs)
      if (output.state >= 0)
        if (int from = producer[output.tensor].first; from >= 0)
          edge(from, slotOf(output.tensor), argument(output.state), argumentSlot(output.state), output.tensor, false,
               1);
    findLooks();
    tables.reshards.forgetSteps();
  }

private:
  struct Reader {
    int variable, slot;
    bool late;
    int64_t repeats; // of the operation
    bool operator<(const Reader &other) const {
      return std::tie(variable, slot) < std::tie(other.variable, other.slot);
    }
    bool operator==(const Reader &other) const { return variable == other.variable && slot == other.slot; }
  };

  int addVariable(Impl::Meaning meaning, std::vector<double> cost, std::vector<double> memory) {
    whole.variables.push_back({std::move(cost), std::move(memory)});
    impl.meanings.push_back(std::move(meaning));
    return impl.meanings.size() - 1;
  }

  int slot(const std::vector<Sharding> &shardings) {
    std::vector<int> list;
    list.reserve(shardings.size());
    for (const Sharding &sharding : shardings)
      list.push_back(tables.reshards.numberOf(sharding));
    return tables.slots.of(list);
  }

  void addGroup(int number, const Group &group) {
    auto &known = tables.templates[impl.kinds.kindOf[number]];
    if (!known)
      known = templateFor(group);
    const Template &strategies = *known;
    int variable = addVariable({Impl::Kind::group, number, &strategies, {}}, strategies.cost, {});
    for (auto [op, operands, results] : llvm::zip(group.ops, strategies.operands, strategies.results)) {
      for (auto [position, s] : results)
        producer[problem.ops[op].results[position]] = {variable, s};
      for (auto [position, s] : operands)
        readers[problem.ops[op].operands[position]].push_back(
            {variable, s, impl.groups.late[op], problem.ops[op].repeats});
    }
  }

  std::shared_ptr<const Template> templateFor(const Group &group) {
    auto made = std::make_shared<Template>();
    Template &result = *made;
    result.strategies = strategiesOf(problem, mesh, group);
    result.cost.assign(result.strategies.size(), 0);
    using Lists = std::map<std::pair<int, int>, std::vector<int>>; // by member and position: numbers of shardings, by strategy
    Lists operands, results;
    for (auto [s, strategy] : llvm::enumerate(result.strategies)) {
      std::map<int, Sharding> made;
      step::Work work;
      double internal = 0;
      const Problem::Op &first = problem.ops[group.ops[0]];
      int launches = 0;
      for (auto [m, op] : llvm::enumerate(group.ops)) {
        const Problem::Op &entry = problem.ops[op];
        FactorAxes factors = memberFactors(group, m, strategy);
        launches += impl.fused.launches[op];
        step::Work own = localWork(problem, entry, mesh, factors);
        if (group.ops.size() == 1)
          work = own;
        else
          work.flops += own.flops, work.rowSums += own.rowSums;
        for (auto [i, t] : llvm::enumerate(entry.operands)) {
          if (problem.tensors[t].splat)
            continue;
          Sharding want = operandSharding(entry, mesh, factors, i, strategy.passed);
          for (auto [operand, share] : impl.fused.readsOf[op])
            if (operand == (int)i)
              work.bytes += share * localBytes(problem.tensors[t], mesh, want);
          if (auto it = made.find(t); it != made.end()) {
            internal += reshard(problem.tensors[t], it->second, want);
            continue;
          }
          operands[{(int)m, (int)i}].push_back(tables.reshards.numberOf(want));
        }
        for (auto [i, t] : llvm::enumerate(entry.results)) {
          Sharding have = resultSharding(entry, mesh, factors, i, strategy.passed);
          if (group.ops.size() > 1)
            made[t] = have;
          if (impl.fused.stored[t])
            work.bytes += localBytes(problem.tensors[t], mesh, have);
          if (!impl.groups.outside[t])
            continue;
          if (facts[t].whole)
            internal += reshard(problem.tensors[t], have, Sharding(have.dims.size()));
          results[{(int)m, (int)i}].push_back(tables.reshards.numberOf(have));
        }
      }
      result.cost[s] = 1e6 * first.repeats * (internal + costs.prices.seconds(work, first.precision, launches));
    }
    result.operands.resize(group.ops.size());
    result.results.resize(group.ops.size());
    for (auto &[place, list] : operands)
      result.operands[place.first].push_back({place.second, tables.slots.of(list)});
    for (auto &[place, list] : results)
      result.results[place.first].push_back({place.second, tables.slots.of(list)});
    return made;
  }

  /// Single numbers are summed together with others: norms of gradients, counts and losses. One takes no time of its own.
  static bool isNumber(const Problem::Tensor &tensor) { return tensor.bytes() == tensor.elementBytes; }
  double reshard(const Problem::Tensor &tensor, const Sharding &have, const Sharding &want) const {
    return have == want || isNumber(tensor) ? 0 : costs.reshard(tensor.bytes(), have, want);
  }

  int root(int tensor) const { return impl.rootOf[tensor]; }

  int argument(int tensor) {
    tensor = root(tensor);
    auto [it, fresh] = impl.arguments.try_emplace(tensor, 0);
    if (!fresh)
      return it->second;
    auto pin = pins.find(tensor);
    std::vector<Sharding> list =
        pin != pins.end() ? std::vector<Sharding>{pin->second} : shardingsOf(problem.tensors[tensor], mesh);
    std::vector<double> memory = memoryOf(problem.tensors[tensor], list);
    argumentSlots[tensor] = slot(list);
    std::vector<double> cost(list.size());
    if (problem.tensors[tensor].role == Problem::Role::input) // what a device is fed
      for (auto [microseconds, bytes] : llvm::zip(cost, memory))
        microseconds = 1e6 * bytes / costs.cluster.device.bandwidth;
    return it->second = addVariable({Impl::Kind::argument, tensor, nullptr, std::move(list)}, std::move(cost),
                                    std::move(memory));
  }
  int argumentSlot(int tensor) {
    argument(tensor);
    return argumentSlots.at(root(tensor));
  }
  int slotOf(int tensor) const { return producer[tensor].second; }

  /// Joins a value's producer with its readers: directly, through a shared sharding, or from the argument that it is.
  void connect(int tensor) {
    const Problem::Tensor &t = problem.tensors[tensor];
    if (t.splat)
      return;
    llvm::stable_sort(readers[tensor]);
    readers[tensor].erase(std::unique(readers[tensor].begin(), readers[tensor].end()), readers[tensor].end());
    if (producer[tensor].first < 0) {
      for (const Reader &reader : readers[tensor])
        edge(argument(tensor), argumentSlot(tensor), reader.variable, reader.slot, tensor, t.weight && !reader.late,
             reader.repeats);
      return;
    }
    auto [from, fromSlot] = producer[tensor];
    const GroupKinds::Facts &f = facts[tensor];
    // Gradients are reduced beside the backward pass, and parameters gathered ahead of their use.
    auto mayHide = [&, early = impl.groups.isEarly(tensor)](bool late) { return early && (late || t.weight); };
    if ((!f.shared && !f.persists) || isNumber(t)) {
      for (const Reader &reader : readers[tensor])
        edge(from, fromSlot, reader.variable, reader.slot, tensor, mayHide(reader.late), t.repeats);
      return;
    }
    bool late = llvm::all_of(readers[tensor], [](const Reader &reader) { return reader.late; });
    std::vector<Sharding> list = shardingsOf(t, mesh);
    std::vector<double> cost(list.size()), memory;
    if (f.persists)
      memory = memoryOf(t, list);
    int s = slot(list);
    int shared =
        addVariable({Impl::Kind::shared, tensor, nullptr, std::move(list)}, std::move(cost), std::move(memory));
    edge(from, fromSlot, shared, s, tensor, mayHide(late), t.repeats);
    for (const Reader &reader : readers[tensor])
      edge(shared, s, reader.variable, reader.slot, tensor, !late && mayHide(reader.late), t.repeats);
  }

  std::vector<double> memoryOf(const Problem::Tensor &tensor, const std::vector<Sharding> &list) const {
    std::vector<double> memory;
    for (const Sharding &sharding : list)
      memory.push_back(localBytes(tensor, mesh, sharding));
    return memory;
  }

  /// `times`: how often a step reshards the tensor here.
  void edge(int from, int fromSlot, int to, int toSlot, int tensor, bool mayHide, int64_t times) {
    if (from == to)
      return;
    int64_t bytes = problem.tensors[tensor].bytes();
    if (isNumber(problem.tensors[tensor]))
      times = 0;
    auto [it, fresh] = matrixOf.try_emplace({fromSlot, toSlot, bytes, mayHide, times}, whole.matrices.size());
    if (fresh) {
      impl.hideable.push_back(mayHide);
      whole.matrices.push_back(
          tables.reshards.between(costs, tables.slots[fromSlot], tables.slots[toSlot], bytes, times));
    }
    whole.edges.push_back({from, to, it->second});
  }

  void findLooks() {
    Numbers<Text> looks;
    for (const Impl::Meaning &meaning : impl.meanings) {
      Text text = {(int)meaning.kind};
      if (meaning.strategies)
        text.push_back(templateNumbers.of(meaning.strategies));
      else
        for (int64_t size : problem.tensors[meaning.index].shape)
          text.push_back((int)size);
      impl.looks.push_back(looks.of(text));
    }
  }

  const Problem &problem;
  const CostModel &costs;
  const Mesh &mesh;
  const std::map<int, Sharding> &pins;
  Impl &impl;
  Tables &tables;
  PairwiseProblem &whole;
  const std::vector<GroupKinds::Facts> &facts; // by tensor
  std::vector<std::pair<int, int>> producer; // by tensor: variable and slot
  std::vector<llvm::SmallVector<Reader, 2>> readers; // by tensor
  std::map<int, int> argumentSlots; // by root
  Numbers<const Template *> templateNumbers;
  std::map<std::tuple<int, int, int64_t, bool, int64_t>, int> matrixOf;
};

namespace {

/// The rows and columns of a matrix that are left: one each if it is given, not -1.
PairwiseProblem::Matrix slice(const PairwiseProblem::Matrix &matrix, int row, int column) {
  PairwiseProblem::Matrix result{row < 0 ? matrix.rows : 1, column < 0 ? matrix.columns : 1, {}};
  auto line = matrix.entries.begin() + std::max(row, 0) * matrix.columns;
  for (int r = 0; r < result.rows; ++r, line += matrix.columns)
    if (column < 0)
      result.entries.insert(result.entries.end(), line, line + matrix.columns);
    else
      result.entries.push_back(line[column]);
  return result;
}

} // namespace

SearchSpace::SearchSpace(const Problem &problem, const Groups &groups, const FusedProblem &fused,
                         const GroupKinds &kinds, const CostModel &costs, const std::map<int, Sharding> &pins,
                         const SearchSpace *known)
    : impl(std::make_unique<Impl>(groups, fused, kinds)) {
  if (known)
    impl->tables = known->impl->tables;
  impl->rootOf.resize(problem.tensors.size());
  for (size_t t = 0; t < problem.tensors.size(); ++t)
    impl->rootOf[t] = t;
  for (auto [a, b] : problem.same)
    impl->rootOf[b] = impl->rootOf[a];
  for (size_t t = 0; t < problem.tensors.size(); ++t)
    impl->alike[impl->rootOf[t]].push_back(t);
  Builder(problem, costs, pins, *impl).run();
}
SearchSpace::~SearchSpace() = default;

/// By variable: the only strategy that is left, or -1. Nothing if an argument has no strategy that lays it so.
std::optional<std::vector<int>> SearchSpace::Impl::laidStrategies(const std::map<int, Sharding> &places) const {
  std::vector<int> result(meanings.size(), -1);
  for (auto [tensor, variable] : arguments)
    if (auto place = places.find(tensor); place != places.end()) {
      const std::vector<Sharding> &list = meanings[variable].shardings;
      auto at = llvm::find(list, place->second);
      if (at == list.end())
        return std::nullopt;
      result[variable] = at - list.begin();
    }
  return result;
}

std::optional<PairwiseProblem> SearchSpace::pairwise(double hidden, const std::map<int, Sharding> &places) const {
  auto laid = impl->laidStrategies(places);
  if (!laid)
    return std::nullopt;
  const PairwiseProblem &whole = impl->whole;
  PairwiseProblem result;
  result.variables = whole.variables;
  for (auto [variable, only] : llvm::zip(result.variables, *laid))
    if (only >= 0) {
      variable.cost = {variable.cost[only]};
      if (!variable.memory.empty())
        variable.memory = {variable.memory[only]};
    }
  std::map<std::array<int, 3>, int> matrices;
  for (const PairwiseProblem::Edge &edge : whole.edges) {
    const int row = (*laid)[edge.from], column = (*laid)[edge.to];
    auto [it, fresh] = matrices.try_emplace({edge.matrix, row, column}, result.matrices.size());
    if (fresh) {
      PairwiseProblem::Matrix &matrix = result.matrices.emplace_back(slice(whole.matrices[edge.matrix], row, column));
      if (impl->hideable[edge.matrix])
        for (double &entry : matrix.entries)
          entry = entry < never ? entry * (1 - hidden) : entry;
    }
    result.edges.push_back({edge.from, edge.to, it->second});
  }
  tieAlike(result, impl->looks);
  return result;
}

double SearchSpace::hideable(const std::vector<int> &choice, const std::map<int, Sharding> &places) const {
  const std::vector<int> laid = *impl->laidStrategies(places); // (a search has asked before)
  auto chosen = [&](int variable) { return laid[variable] < 0 ? choice[variable] : laid[variable]; };
  double sum = 0;
  for (const PairwiseProblem::Edge &edge : impl->whole.edges)
    if (impl->hideable[edge.matrix]) {
      const PairwiseProblem::Matrix &matrix = impl->whole.matrices[edge.matrix];
      sum += matrix.entries[(size_t)chosen(edge.from) * matrix.columns + chosen(edge.to)];
    }
  return sum;
}

void SearchSpace::decide(const std::vector<int> &choice, const std::map<int, Sharding> &places, Plan &plan) const {
  for (auto [v, meaning] : llvm::enumerate(impl->meanings)) {
    if (meaning.kind == Impl::Kind::group) {
      const Group &group = impl->groups.groups[meaning.index];
      for (auto [m, op] : llvm::enumerate(group.ops))
        plan.ops[op] = memberFactors(group, m, meaning.strategies->strategies[choice[v]]);
    } else if (meaning.kind == Impl::Kind::argument) {
      auto place = places.find(meaning.index);
      for (int t : impl->alike.at(meaning.index))
        plan.tensors[t] = place != places.end() ? place->second : meaning.shardings[choice[v]];
    }
  }
}
