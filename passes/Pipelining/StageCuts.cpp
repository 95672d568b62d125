#include "passes/Pipelining/StageCuts.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

namespace {

/// A sequence of layers that is cut into stages.
class Chain {
public:
  Chain(const std::vector<double> &seconds, const std::vector<double> &cutSeconds, const std::vector<double> &devices)
      : layers((int)seconds.size()), cutSeconds(cutSeconds), devices(devices), before(seconds.size() + 1, 0) {
    for (int i = 0; i < layers; ++i)
      before[i + 1] = before[i] + seconds[i];
  }

  double sum(int begin, int end) const { return before[end] - before[begin]; }
  double sum(int begin, int end, int stage) const { return sum(begin, end) / (devices.empty() ? 1 : devices[stage]); }
  double cut(int begin) const { return begin ? cutSeconds[begin] : 0; }

  /// Whether `stages` stages can all stay within a limit: greedily made stages are at most that many, and there are
  /// enough allowed cuts to make more of them.
  bool fits(int stages, double limit) const {
    int cuts = 0, needed = 1, begin = 0, end = 0; // `end`: the last cut so far
    for (int i = 1; i <= layers; ++i) {
      bool allowed = i == layers || cut(i) <= limit;
      cuts += allowed && i < layers;
      if (!allowed)
        continue;
      if (sum(begin, i) > limit) {
        begin = end;
        ++needed;
        if (sum(begin, i) > limit)
          return false;
      }
      end = i;
    }
    return needed <= stages && cuts >= stages - 1;
  }

  /// The least limit that fits, by bisection over the bits: nonnegative doubles are ordered as their bits.
  double leastLimit(int stages) const {
    if (!devices.empty())
      return leastByTable(stages);
    uint64_t low = 0, high = std::bit_cast<uint64_t>(std::numeric_limits<double>::max());
    while (low < high) {
      uint64_t middle = low + (high - low) / 2;
      if (fits(stages, std::bit_cast<double>(middle)))
        high = middle;
      else
        low = middle + 1;
    }
    return std::bit_cast<double>(low);
  }

  const int layers;

private:
  /// The least limit for stages with different numbers of devices: by dynamic programming over the layer at which the
  /// first k stages end.
  double leastByTable(int stages) const {
    constexpr double infinite = std::numeric_limits<double>::infinity();
    std::vector<double> least(layers + 1, infinite);
    least[0] = 0;
    for (int k = 0; k < stages; ++k) {
      std::vector<double> next(layers + 1, infinite);
      for (int j = k + 1; j <= layers; ++j)
        for (int i = j - 1; i >= k && sum(i, j, k) < next[j]; --i)
          next[j] = std::min(next[j], std::max({least[i], cut(i), sum(i, j, k)}));
      least = std::move(next);
    }
    return least[layers];
  }

  const std::vector<double> &cutSeconds, &devices;
  std::vector<double> before; // sum of all layers before one
};
} // namespace

std::vector<int> divisi::pipelining::cutIntoStages(const std::vector<double> &seconds,
                                                   const std::vector<double> &cutSeconds, int stages,
                                                   const std::vector<double> &devices) {
  Chain chain(seconds, cutSeconds, devices);
  int layers = chain.layers;
  constexpr double infinite = std::numeric_limits<double>::infinity();
  double limit = chain.leastLimit(stages);
  // Of the cuts without a slower stage, those with the fewest message seconds. `from`: where the last stage begins.
  std::vector<std::vector<double>> messages(stages, std::vector<double>(layers + 1, infinite));
  std::vector<std::vector<int>> from(stages, std::vector<int>(layers + 1, 0));
  for (int j = 1; j <= layers; ++j)
    messages[0][j] = chain.sum(0, j, 0) <= limit ? 0 : infinite;
  for (int k = 1; k < stages; ++k)
    for (int j = k + 1; j <= layers; ++j)
      for (int i = j - 1; i >= k && chain.sum(i, j, k) <= limit; --i)
        if (double sum = messages[k - 1][i] + chain.cut(i); chain.cut(i) <= limit && sum <= messages[k][j])
          messages[k][j] = sum, from[k][j] = i;
  std::vector<int> cuts;
  for (int k = stages - 1, j = layers; k > 0; --k)
    cuts.push_back(j = from[k][j]);
  std::reverse(cuts.begin(), cuts.end());
  return cuts;
}
