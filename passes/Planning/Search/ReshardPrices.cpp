#include "passes/Planning/Search/ReshardPrices.h"

using namespace divisi;
using namespace divisi::dist;
using namespace divisi::planning;

int ReshardPrices::numberOf(const Sharding &sharding) {
  spelling.clear();
  for (const Axes &axes : sharding.dims) {
    spelling.insert(spelling.end(), axes.begin(), axes.end());
    spelling.push_back(-1);
  }
  spelling.insert(spelling.end(), sharding.pending.begin(), sharding.pending.end());
  if (!sharding.pending.empty())
    spelling.push_back(-2 - (int)sharding.kind);
  int number = spellings.of(spelling);
  if (number == (int)shardings.size())
    shardings.push_back(sharding);
  return number;
}

/// From one sharding to all others.
struct ReshardPrices::Line {
  int from;
  int64_t bytes;
  std::vector<double> &prices;
  std::vector<Steps> &steps;
};

PairwiseProblem::Matrix ReshardPrices::between(const CostModel &costs, llvm::ArrayRef<int> rows,
                                               llvm::ArrayRef<int> columns, int64_t bytes, int64_t times) {
  Numbers<int> distinct; // many strategies lay a value alike
  std::vector<int> places;
  for (int column : columns)
    places.push_back(distinct.of(column));
  std::vector<double> microseconds(distinct.size());
  PairwiseProblem::Matrix matrix{(int)rows.size(), (int)columns.size(), {}};
  matrix.entries.resize(rows.size() * columns.size());
  double *entry = matrix.entries.data();
  std::map<int, const double *> filled; // rows of the matrix
  for (int row : rows) {
    auto [it, fresh] = filled.try_emplace(row, entry);
    if (!fresh) {
      entry = std::copy_n(it->second, columns.size(), entry);
      continue;
    }
    Line line{row, bytes, prices[{bytes, row}], steps[row]};
    line.prices.resize(shardings.size(), -1);
    line.steps.resize(shardings.size());
    for (auto [i, number] : llvm::enumerate(microseconds))
      if (const double once = price(costs, line, distinct[i]); once < never) // (0 times, too)
        number = std::min(never, times * once);
      else
        number = never;
    for (int place : places)
      *entry++ = microseconds[place];
  }
  return matrix;
}

double ReshardPrices::price(const CostModel &costs, const Line &line, int to) const {
  double &known = line.prices[to];
  if (known >= 0)
    return known;
  const Sharding &a = shardings[line.from], &b = shardings[to];
  if (!llvm::all_of(b.pending, [&](int axis) { return llvm::is_contained(a.pending, axis); }))
    return known = never;
  if (!line.steps[to])
    line.steps[to] = planReshard(a, b);
  return known = 1e6 * costs.reshard(line.bytes, a, *line.steps[to]);
}
