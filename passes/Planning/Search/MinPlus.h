#pragma once
#include "passes/Planning/Search/Graph.h"

namespace divisi::planning {

inline void add(std::vector<double> &to, const double *what) {
  for (size_t i = 0; i < to.size(); ++i)
    to[i] += what[i];
}

/// The least and the greatest of some numbers.
double leastOf(const double *numbers, int count);
double greatestOf(const double *numbers, int count);

/// out[c] = min over rows r of weight[r] + table[r][c], minus the least of these, which is returned. `out` has room for
/// table.columns entries. Of larger tables, rows whose least entry is too large to matter are not read.
class MinPlus {
public:
  double operator()(const double *weight, const Table &table, const std::vector<double> &rowLeast, double *out);

private:
  void lowerByFew(const double *weight, const Table &table, const std::vector<double> &rowLeast);

  std::vector<double> best, lowered; // padded like a row
  std::vector<int> rows;
};

} // namespace divisi::planning
