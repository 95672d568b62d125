#include "passes/Planning/Pipeline/Hierarchy.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace divisi;
using namespace divisi::planning;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double mostWork = 1e8; // steps of the dynamic program on one level

/// All cuts, or as many as are affordable: the network is divided into equal parts of compute and parameters, and of
/// each part the cut with the fewest crossing bytes is kept.
std::vector<int> keepCuts(const Cuts &cuts, int most) {
  std::vector<int> kept;
  int last = cuts.count() - 1;
  if (cuts.count() <= most) {
    for (int cut = 0; cut <= last; ++cut)
      kept.push_back(cut);
    return kept;
  }
  auto share = [](double part, double all) { return all > 0 ? part / all : 0; };
  std::vector<int> best(most - 2, -1); // by part
  for (int cut = 1; cut < last; ++cut) {
    double done = (share(cuts[cut].ms, cuts[last].ms) + share(cuts[cut].parameterBytes, cuts[last].parameterBytes)) / 2;
    int &slot = best[std::min(static_cast<int>(done * (most - 2)), most - 3)];
    if (slot < 0 || cuts[cut].crossingBytes < cuts[slot].crossingBytes)
      slot = cut;
  }
  kept = {0, last};
  for (int cut : best)
    if (cut >= 0)
      kept.push_back(cut);
  std::sort(kept.begin(), kept.end());
  return kept;
}

} // namespace

Hierarchy::Hierarchy(const Cuts &cuts, llvm::ArrayRef<PipeLevel> levels) : cuts(cuts), levels(levels) {
  int64_t units = 1; // units of the levels that every pair of cuts needs; the outermost level starts at cut 0 only
  for (const PipeLevel &level : levels.drop_back())
    units = std::max(units, level.size);
  double affordable = std::min(std::cbrt(6 * mostWork / static_cast<double>(units)),
                               std::sqrt(20 * mostWork / static_cast<double>(levels.back().size)));
  kept = keepCuts(cuts, std::max(32, static_cast<int>(affordable)));
  int count = considered();
  within.resize(static_cast<size_t>(count) * count);
  below.emplace_back(within.size(), infinity);
  for (int inner = 0; inner < count; ++inner)
    for (int outer = inner + 1; outer < count; ++outer)
      if (cuts.contains(kept[outer], kept[inner])) {
        within[at(inner, outer)] = true;
        below[0][at(inner, outer)] = cuts[kept[outer]].ms - cuts[kept[inner]].ms;
      }
  for (size_t level = 0; level + 1 < levels.size(); ++level) {
    std::vector<double> &times = below.emplace_back(within.size(), infinity);
    size_t size = levels[level].size;
    for (int inner = 0; inner < count; ++inner) {
      std::vector<Entry> table = solveFrom(level, inner);
      for (int outer = inner + 1; outer < count; ++outer)
        times[at(inner, outer)] = table[static_cast<size_t>(outer) * (size + 1) + size].ms;
    }
  }
}

/// The table of best times, by later cut and number of units.
std::vector<Hierarchy::Entry> Hierarchy::solveFrom(size_t level, int inner) const {
  int64_t size = levels[level].size;
  std::vector<Entry> table(kept.size() * (size + 1), Entry{infinity});
  for (int end = inner + 1; end < considered(); ++end)
    if (within[at(inner, end)]) {
      extend(level, inner, end, /*first=*/true, table);
      for (int start = inner + 1; start < end; ++start)
        if (within[at(inner, start)] && within[at(start, end)])
          extend(level, start, end, /*first=*/false, table);
    }
  return table;
}

/// Tries a stage from `start` to `end` on all numbers of units. From two replicas on, more replicas make the stage no
/// slower, and leave fewer units to the stages before it, which get no faster. The best number is where the two times
/// cross, and increases with the number of units.
void Hierarchy::extend(size_t level, int start, int end, bool first, std::vector<Entry> &table) const {
  int64_t size = levels[level].size;
  const Entry *ahead = &table[static_cast<size_t>(start) * (size + 1)];
  Entry *result = &table[static_cast<size_t>(end) * (size + 1)];
  double unit = below[level][at(start, end)], bandwidth = levels[level].bandwidth;
  double parameters = transferMs(cuts[kept[end]].parameterBytes - cuts[kept[start]].parameterBytes, bandwidth);
  double crossing = first ? 0 : 2 * transferMs(cuts[kept[start]].crossingBytes, bandwidth);
  auto time = [&](int64_t m) { return std::max(unit / static_cast<double>(m), syncMs(parameters, m)); };
  if (first) {
    Entry best{infinity};
    for (int64_t m = 1; m <= size; ++m) {
      if (double ms = time(m); ms < best.ms)
        best = {ms, start, static_cast<int>(m)};
      result[m] = best;
    }
    return;
  }
  if (std::max(crossing, unit / static_cast<double>(size)) >= result[1].ms)
    return;
  // Two replicas may be slower than one, so one replica is tried separately.
  auto offer = [&](int64_t units, int64_t m) {
    double ms = std::max({ahead[units - m].ms, crossing, time(m)});
    if (ms < result[units].ms)
      result[units] = {ms, start, static_cast<int>(m)};
  };
  for (int64_t units = 2, m = 2; units <= size; ++units) {
    offer(units, 1);
    while (m < units - 1 && ahead[units - m].ms < time(m))
      ++m;
    if (m < units)
      offer(units, m);
    if (m > 2)
      offer(units, m - 1);
  }
}

/// The stages between two cuts on all units of a level, or on the fewest units with the same time.
std::vector<Hierarchy::Stage> Hierarchy::stages(size_t level, int inner, int outer) const {
  std::vector<Entry> table = solveFrom(level, inner);
  size_t size = levels[level].size;
  double limit = table[static_cast<size_t>(outer) * (size + 1) + size].ms * sameTime;
  std::vector<Stage> result; // from the last one
  double crossing = 0;
  for (size_t left = size; outer != inner;) {
    const Entry *row = &table[static_cast<size_t>(outer) * (size + 1)];
    left = std::partition_point(row + 1, row + left, [&](const Entry &e) { return e.ms > limit; }) - row;
    const Entry &entry = row[left];
    std::vector<Stage> parts;
    if (level == 0)
      parts.push_back({kept[entry.start], kept[outer], {}, below[0][at(entry.start, outer)], 0});
    else
      parts = stages(level - 1, entry.start, outer);
    double bandwidth = levels[level].bandwidth, replicas = static_cast<double>(entry.replicas);
    double parameterBytes = cuts[kept[outer]].parameterBytes - cuts[kept[entry.start]].parameterBytes;
    for (Stage &part : parts) {
      part.perLevel.push_back(entry.replicas);
      part.ms = std::max(part.ms / replicas, syncMs(transferMs(parameterBytes, bandwidth), entry.replicas));
      part.transferMs /= replicas;
    }
    parts.back().transferMs = crossing;
    result.insert(result.begin(), parts.begin(), parts.end());
    crossing = 2 * transferMs(cuts[kept[entry.start]].crossingBytes, bandwidth);
    left -= entry.replicas;
    outer = entry.start;
  }
  return result;
}

std::vector<Hierarchy::Stage> Hierarchy::run() { return stages(levels.size() - 1, 0, considered() - 1); }
