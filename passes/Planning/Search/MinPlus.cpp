#include "passes/Planning/Search/MinPlus.h"

#include <algorithm>

using namespace divisi;
using namespace divisi::planning;

#if defined(__x86_64__) && __has_attribute(target_clones)
#define DIVISI_WIDE __attribute__((target_clones("avx2", "default")))
#else
#define DIVISI_WIDE
#endif

namespace {

/// In smaller tables it takes longer to find rows that lower nothing than to add them.
constexpr int fewEntries = 1024;

/// All rows, for four columns at a time, which are one vector.
DIVISI_WIDE void lowerByAll(double *__restrict best, const double *__restrict weight, const double *__restrict entries,
                            int rows, int length) {
  for (int c = 0; c < (length & ~3); c += 4) {
    double least[4];
    for (int j = 0; j < 4; ++j)
      least[j] = weight[0] + entries[c + j];
    const double *row = entries + c;
    for (int r = 1; r < rows; ++r) {
      row += length;
      for (int j = 0; j < 4; ++j) {
        double x = weight[r] + row[j];
        least[j] = x < least[j] ? x : least[j];
      }
    }
    for (int j = 0; j < 4; ++j)
      best[c + j] = least[j];
  }
}

/// Four rows at once. What is lower goes to another place: of a minimum in its own place clang makes a store
/// under a mask, which takes longer. The length is a multiple of the lanes; masking it tells g++ -O2, which then
/// vectorizes the loop, by four numbers where the processor has such vectors.
DIVISI_WIDE void lower(double *__restrict out, const double *__restrict best, const double *__restrict a,
                       const double *__restrict b, const double *__restrict c, const double *__restrict d,
                       const double (&weight)[4], int length) {
  static_assert(Table::lanes == 4);
  const double wa = weight[0], wb = weight[1], wc = weight[2], wd = weight[3];
  for (int i = 0; i < (length & ~3); ++i) {
    double x = wa + a[i], y = wb + b[i], z = wc + c[i], w = wd + d[i];
    double p = x < y ? x : y, q = z < w ? z : w, r = p < q ? p : q;
    out[i] = r < best[i] ? r : best[i];
  }
}

DIVISI_WIDE void lower(double *__restrict out, const double *__restrict best, const double *__restrict row,
                       double weight, int length) {
  for (int i = 0; i < (length & ~3); ++i) {
    double x = weight + row[i];
    out[i] = x < best[i] ? x : best[i];
  }
}

} // namespace

// Four at a time, because each minimum waits for the one before.
double planning::leastOf(const double *numbers, int count) {
  double least[4] = {numbers[0], numbers[0], numbers[0], numbers[0]};
  int i = 0;
  for (; i + 4 <= count; i += 4)
    for (int j = 0; j < 4; ++j)
      least[j] = numbers[i + j] < least[j] ? numbers[i + j] : least[j];
  for (; i < count; ++i)
    least[0] = std::min(least[0], numbers[i]);
  return std::min(std::min(least[0], least[1]), std::min(least[2], least[3]));
}

double planning::greatestOf(const double *numbers, int count) {
  double greatest[4] = {numbers[0], numbers[0], numbers[0], numbers[0]};
  int i = 0;
  for (; i + 4 <= count; i += 4)
    for (int j = 0; j < 4; ++j)
      greatest[j] = numbers[i + j] > greatest[j] ? numbers[i + j] : greatest[j];
  for (; i < count; ++i)
    greatest[0] = std::max(greatest[0], numbers[i]);
  return std::max(std::max(greatest[0], greatest[1]), std::max(greatest[2], greatest[3]));
}

double MinPlus::operator()(const double *weight, const Table &table, const std::vector<double> &rowLeast, double *out) {
  best.resize(table.stride);
  if (table.rows * table.stride > fewEntries)
    lowerByFew(weight, table, rowLeast);
  else
    lowerByAll(best.data(), weight, table.entries.data(), table.rows, table.stride);
  double least = leastOf(best.data(), table.columns);
  for (int c = 0; c < table.columns; ++c)
    out[c] = best[c] - least;
  return least;
}

/// Only the rows that may lower the sums of the row with the least weight.
void MinPlus::lowerByFew(const double *weight, const Table &table, const std::vector<double> &rowLeast) {
  int first = static_cast<int>(std::min_element(weight, weight + table.rows) - weight);
  const double *row = table.row(first);
  for (int c = 0; c < table.stride; ++c)
    best[c] = weight[first] + row[c];
  double worst = greatestOf(best.data(), table.columns);
  rows.clear();
  for (int r = 0; r < table.rows; ++r)
    if (r != first && weight[r] + rowLeast[r] < worst)
      rows.push_back(r);
  lowered.resize(table.stride);
  size_t k = 0;
  auto weighted = [&](size_t i) { return weight[rows[i]]; };
  auto entries = [&](size_t i) { return table.row(rows[i]); };
  for (; k + 4 <= rows.size(); k += 4, best.swap(lowered))
    lower(lowered.data(), best.data(), entries(k), entries(k + 1), entries(k + 2), entries(k + 3),
          {weighted(k), weighted(k + 1), weighted(k + 2), weighted(k + 3)}, table.stride);
  for (; k < rows.size(); ++k, best.swap(lowered))
    lower(lowered.data(), best.data(), entries(k), weighted(k), table.stride);
}
