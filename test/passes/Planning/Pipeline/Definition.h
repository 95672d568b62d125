#pragma once
// PipeDream's definition by enumeration, and random profiles to compare with it.
#include "Networks.h"
#include "passes/Planning/Pipeline/PipeDream.h"

#include <limits>
#include <map>

namespace divisi::planning::test {

inline constexpr double infinity = std::numeric_limits<double>::infinity();

/// The definition by enumeration, with sets of layers as bits; it shares no code with the planner.
class Definition {
public:
  Definition(const LayerProfile &profile, std::vector<PipeLevel> levels, PipeCost cost = PipeCost::paper)
      : profile(profile), levels(std::move(levels)), cost(cost), all((1u << profile.layers.size()) - 1) {}

  /// The same for one level, by dynamic programming over downsets.
  double bestOfLevel() const {
    int64_t devices = levels[0].size;
    std::map<unsigned, std::vector<double>> table; // by downset, then by the number of devices: at most that many
    table[0].assign(devices + 1, 0);
    for (unsigned set = 1; set <= all; ++set) {
      if (!closed(set))
        continue;
      std::vector<double> row(devices + 1, infinity);
      for (const auto &[inner, ahead] : table) {
        if ((inner & ~set) != 0)
          continue;
        double cut = inner ? 2 * crossing(inner, levels[0].bandwidth) : 0;
        for (int64_t m = 1; m <= devices; ++m) {
          double time = stage(sum(set & ~inner), set & ~inner, m, levels[0].bandwidth);
          for (int64_t units = m; units <= devices; ++units)
            row[units] = std::min(row[units], std::max({ahead[units - m], cut, time}));
        }
      }
      table[set] = row;
    }
    return table[all][devices];
  }

  double best() { return levels.empty() ? sum(all) : from(levels.size() - 1, 0, all); }

  bool closed(unsigned set) const {
    for (size_t i = 0; i < profile.layers.size(); ++i)
      for (int input : profile.layers[i].inputs)
        if ((set >> i & 1) && !(set >> input & 1))
          return false;
    return true;
  }
  double sum(unsigned set) const {
    double result = 0;
    for (size_t i = 0; i < profile.layers.size(); ++i)
      if (set >> i & 1)
        result += profile.layers[i].forwardMs + profile.layers[i].backwardMs;
    return result;
  }
  double crossing(unsigned set, double bandwidth) const {
    return cost == PipeCost::code ? 0 : crossingBytes(set) / bandwidth * 1000;
  }
  double crossingBytes(unsigned set) const {
    double bytes = 0;
    for (size_t i = 0; i < profile.layers.size(); ++i) {
      bool leaves = false;
      for (size_t j = 0; j < profile.layers.size(); ++j)
        for (int input : profile.layers[j].inputs)
          leaves |= input == static_cast<int>(i) && !(set >> j & 1);
      if ((set >> i & 1) && leaves)
        bytes += profile.layers[i].activationBytes;
    }
    return bytes;
  }
  double stage(double one, unsigned set, int64_t m, double bandwidth) const {
    double sync = 0;
    for (size_t i = 0; i < profile.layers.size(); ++i)
      if (set >> i & 1)
        sync +=
            4.0 * static_cast<double>(m - 1) / static_cast<double>(m) * profile.layers[i].parameterBytes / bandwidth;
    return (cost == PipeCost::code ? one + sync * 1000 : std::max(one, sync * 1000)) / static_cast<double>(m);
  }

private:
  /// The least over all chains of downsets from `inner` to `outer` and all numbers of units.
  double from(size_t level, unsigned inner, unsigned outer) {
    auto [known, added] = times.try_emplace({level, inner, outer}, infinity);
    if (!added)
      return known->second;
    double result = infinity;
    chains(level, inner, outer, levels[level].size, 0, result);
    return times[{level, inner, outer}] = result;
  }

  void chains(size_t level, unsigned inner, unsigned outer, int64_t units, double slowest, double &best) {
    if (inner == outer)
      best = std::min(best, slowest);
    if (inner == outer || units == 0)
      return;
    for (unsigned next = inner + 1; next <= outer; ++next) {
      if ((next & inner) != inner || (next & ~outer) || !closed(next))
        continue;
      double one = level == 0 ? sum(next & ~inner) : from(level - 1, inner, next);
      double cut = next == outer ? 0 : 2 * crossing(next, levels[level].bandwidth);
      for (int64_t m = 1; m <= units; ++m)
        chains(level, next, outer, units - m,
               std::max({slowest, cut, stage(one, next & ~inner, m, levels[level].bandwidth)}), best);
    }
  }

  const LayerProfile &profile;
  std::vector<PipeLevel> levels;
  PipeCost cost;
  unsigned all;
  std::map<std::tuple<size_t, unsigned, unsigned>, double> times;
};

/// Up to `most` layers; sometimes whole numbers, so that many plans take the same time.
inline LayerProfile randomProfile(Random &random, int most) {
  LayerProfile profile;
  int count = 1 + random.below(most), density = 1 + random.below(5);
  bool whole = random.below(3) == 0, heavy = random.below(2);
  auto number = [&](double limit) {
    return random.below(6) == 0 ? 0 : whole ? static_cast<double>(random.below(4)) : random.upTo(limit);
  };
  for (int i = 0; i < count; ++i) {
    LayerProfile::Layer layer{"l" + std::to_string(i),   number(3), number(6), number(3e6),
                              number(heavy ? 2e7 : 2e6), {}};
    if (whole) {
      layer.activationBytes *= 1e6;
      layer.parameterBytes *= 1e6;
    }
    for (int input = 0; input < i; ++input)
      if (density == 5 ? input == i - 1 : random.below(5) < density)
        layer.inputs.push_back(input);
    profile.layers.push_back(std::move(layer));
  }
  return profile;
}

} // namespace divisi::planning::test
