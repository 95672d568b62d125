#include "passes/Planning/Search/Elimination.h"

#include <algorithm>

using namespace divisi;
using namespace divisi::planning;

namespace {

/// A function of some variables. The variable that is eliminated first is last, so its strategies are contiguous.
struct Factor {
  std::vector<int> variables;
  std::vector<double> entries;
};

std::vector<int> sizesOf(const Graph &graph) {
  std::vector<int> sizes;
  for (const Graph::Variable &variable : graph.variables)
    sizes.push_back(variable.size());
  return sizes;
}

/// The rows of the factors that depend on the innermost variable, and the distance to the next row of each.
struct Rows {
  std::vector<const double *> at;
  std::vector<size_t> step;
};

/// For `count` strategies of the innermost variable, the least sum of base and rows. Four at a time, because each
/// minimum is a chain of dependent instructions.
template <int count>
void leastSums(const double *base, const Rows &rows, std::vector<double> &sum, int size, double *out) {
  auto least = [&](auto term) {
    double best[count];
    for (int j = 0; j < count; ++j)
      best[j] = term(j, 0);
    for (int s = 1; s < size; ++s)
      for (int j = 0; j < count; ++j)
        best[j] = std::min(best[j], term(j, s));
    std::copy_n(best, count, out);
  };
  const double *a = rows.at[0];
  size_t stepA = rows.step[0];
  if (rows.at.size() == 1)
    return least([=](int j, int s) { return base[s] + a[j * stepA + s]; });
  const double *b = rows.at[1];
  size_t stepB = rows.step[1];
  if (rows.at.size() == 2)
    return least([=](int j, int s) { return base[s] + a[j * stepA + s] + b[j * stepB + s]; });
  sum.resize(static_cast<size_t>(count) * size);
  for (int j = 0; j < count; ++j)
    for (int s = 0; s < size; ++s)
      sum[j * size + s] = base[s] + a[j * stepA + s] + b[j * stepB + s];
  for (size_t k = 2; k < rows.at.size(); ++k)
    for (int j = 0; j < count; ++j)
      for (int s = 0; s < size; ++s)
        sum[j * size + s] += rows.at[k][j * rows.step[k] + s];
  least([&sum, size](int j, int s) { return sum[j * size + s]; });
}

constexpr decltype(&leastSums<1>) leastSumsOf[] = {leastSums<1>, leastSums<2>, leastSums<3>, leastSums<4>};

class Elimination {
public:
  Elimination(const Graph &graph, double price, const EliminationOrder &plan)
      : graph(graph), price(price), sizes(sizesOf(graph)), plan(plan), buckets(graph.variables.size()) {}

  double run(std::vector<int> &choice) {
    addEdges();
    double value = graph.fixedCost + price * graph.fixedMemory;
    for (int v : plan.order) {
      std::vector<double> own = unary(v);
      if (!plan.scope[v].empty()) {
        Factor factor = eliminate(v, own);
        buckets[plan.scope[v].back()].push_back(std::move(factor));
        continue;
      }
      for (const Factor &factor : buckets[v])
        for (size_t s = 0; s < own.size(); ++s)
          own[s] += factor.entries[s];
      value += *std::min_element(own.begin(), own.end());
    }
    choice.assign(graph.variables.size(), 0);
    for (size_t k = plan.order.size(); k-- > 0;)
      choice[plan.order[k]] = bestStrategy(plan.order[k], choice);
    return value;
  }

private:
  void addEdges() {
    for (const Graph::Edge &edge : graph.edges) {
      bool fromFirst = plan.position[edge.from] < plan.position[edge.to];
      const Table &table = fromFirst ? edge.tables->flipped : edge.tables->direct;
      Factor factor{{edge.from, edge.to}, {}};
      if (fromFirst)
        std::swap(factor.variables[0], factor.variables[1]);
      for (int r = 0; r < table.rows; ++r)
        factor.entries.insert(factor.entries.end(), table.row(r), table.row(r) + table.columns);
      buckets[factor.variables[1]].push_back(std::move(factor));
    }
  }

  std::vector<double> unary(int variable) const {
    std::vector<double> own = graph.variables[variable].cost;
    for (size_t s = 0; s < own.size(); ++s)
      own[s] += price * graph.variables[variable].memory[s];
    return own;
  }

  /// The distance between two entries of a factor when one variable of the scope takes its next strategy.
  std::vector<size_t> stridesOf(const Factor &factor, const std::vector<int> &scope) const {
    std::vector<size_t> strides(scope.size());
    size_t step = sizes[factor.variables.back()];
    for (size_t k = factor.variables.size() - 1; k-- > 0;) {
      strides[std::find(scope.begin(), scope.end(), factor.variables[k]) - scope.begin()] = step;
      step *= sizes[factor.variables[k]];
    }
    return strides;
  }

  /// For every choice of the scope, the least sum of the variable's bucket over its strategies.
  Factor eliminate(int variable, const std::vector<double> &own) const {
    const std::vector<int> &scope = plan.scope[variable];
    const std::vector<Factor> &bucket = buckets[variable];
    size_t total = 1;
    for (int v : scope)
      total *= sizes[v];
    Factor result{scope, std::vector<double>(total)};
    std::vector<std::vector<size_t>> strides;
    for (const Factor &factor : bucket)
      strides.push_back(stridesOf(factor, scope));
    std::vector<const double *> at; // by factor: its row for the current choice
    for (const Factor &factor : bucket)
      at.push_back(factor.entries.data());
    int size = sizes[variable], innermost = sizes[scope.back()];
    std::vector<int> index(scope.size());
    std::vector<double> base(size), sum;
    Rows rows;
    for (size_t entry = 0; entry < total; entry += innermost) {
      base = own;
      rows.at.clear();
      rows.step.clear();
      for (size_t f = 0; f < bucket.size(); ++f)
        if (size_t step = strides[f].back()) {
          rows.at.push_back(at[f]);
          rows.step.push_back(step);
        } else {
          for (int s = 0; s < size; ++s)
            base[s] += at[f][s];
        }
      for (int t = 0; t < innermost;) {
        const int count = std::min(4, innermost - t);
        leastSumsOf[count - 1](base.data(), rows, sum, size, &result.entries[entry + t]);
        for (size_t k = 0; k < rows.at.size(); ++k)
          rows.at[k] += count * rows.step[k];
        t += count;
      }
      for (size_t k = scope.size() - 1; k-- > 0;) {
        bool wraps = ++index[k] == sizes[scope[k]];
        for (size_t f = 0; f < bucket.size(); ++f)
          at[f] = at[f] + strides[f][k] - (wraps ? strides[f][k] * index[k] : 0);
        if (!wraps)
          break;
        index[k] = 0;
      }
    }
    return result;
  }

  /// The best strategy of a variable, given those of the variables that were eliminated later.
  int bestStrategy(int variable, const std::vector<int> &choice) const {
    std::vector<double> own = unary(variable);
    for (const Factor &factor : buckets[variable]) {
      size_t row = 0;
      for (size_t k = 0; k + 1 < factor.variables.size(); ++k)
        row = row * sizes[factor.variables[k]] + choice[factor.variables[k]];
      for (size_t s = 0; s < own.size(); ++s)
        own[s] += factor.entries[row * own.size() + s];
    }
    return static_cast<int>(std::min_element(own.begin(), own.end()) - own.begin());
  }

  const Graph &graph;
  double price;
  std::vector<int> sizes;
  const EliminationOrder &plan;
  std::vector<std::vector<Factor>> buckets; // by variable: factors of it and of later variables only
};

} // namespace

double planning::eliminateAll(const Graph &graph, double price, const EliminationOrder &order,
                              std::vector<int> &choice) {
  return Elimination(graph, price, order).run(choice);
}
