#include "passes/Planning/Pipeline/Hierarchy.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace divisi;
using namespace divisi::planning;

namespace {

constexpr double unreached = std::numeric_limits<double>::infinity();

} // namespace

std::vector<int> Hierarchy::keep(const Cuts &cuts, int most) {
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

Hierarchy::Hierarchy(const Cuts &cuts, llvm::ArrayRef<PipeLevel> levels, PipeCost cost, std::vector<int> keptCuts,
                     int64_t &steps)
    : cuts(cuts), levels(levels), cost(cost), steps(steps), kept(std::move(keptCuts)) {
  int count = considered();
  within.resize(static_cast<size_t>(count) * count);
  for (int inner = 0; inner < count; ++inner)
    for (int outer = inner + 1; outer < count; ++outer)
      within[at(inner, outer)] = cuts.contains(kept[outer], kept[inner]);
  times.assign(levels.size(), std::vector<std::vector<double>>(count));
}

double Hierarchy::parameterMs(size_t level, int inner, int outer) const {
  return transferMs(cuts[kept[outer]].parameterBytes - cuts[kept[inner]].parameterBytes, levels[level].bandwidth);
}

/// Milliseconds for what crosses a cut; none crosses the first and the last.
double Hierarchy::crossing(size_t level, int cut) const {
  return cut == 0 || cut == considered() - 1 ? 0
                                             : crossingMs(cost, cuts[kept[cut]].crossingBytes, levels[level].bandwidth);
}

const std::vector<double> &Hierarchy::below(size_t level, int inner) {
  std::vector<double> &result = times[level][inner];
  if (!result.empty())
    return result;
  std::vector<double> row(kept.size(), unreached);
  if (level == 0) {
    for (int outer = inner + 1; outer < considered(); ++outer)
      if (within[at(inner, outer)])
        row[outer] = ms(inner, outer);
  } else {
    size_t size = levels[level - 1].size;
    std::vector<Entry> table = solveFrom(level - 1, inner, /*all=*/false);
    for (int outer = inner + 1; outer < considered(); ++outer)
      row[outer] = table[static_cast<size_t>(outer) * (size + 1) + size].ms;
  }
  return result = std::move(row);
}

/// The table of best times, by later cut and number of units; unless `all`, of single stages if no steps are left.
std::vector<Hierarchy::Entry> Hierarchy::solveFrom(size_t level, int inner, bool all) {
  int64_t size = levels[level].size;
  std::vector<Entry> table(kept.size() * (size + 1), Entry{unreached});
  for (int end = inner + 1; end < considered(); ++end)
    if (within[at(inner, end)]) {
      extend(level, inner, end, /*first=*/true, table);
      if (steps <= 0 && !all)
        continue;
      steps -= (end - inner) * size;
      for (int start = inner + 1; start < end; ++start)
        if (within[at(inner, start)] && within[at(start, end)])
          extend(level, start, end, /*first=*/false, table);
    }
  return table;
}

/// Tries a stage from `start` to `end` on all numbers of units. From two replicas on, more replicas make the stage no
/// slower, and leave fewer units to the stages before it, which get no faster. The best number is where the two times
/// cross, and increases with the number of units.
void Hierarchy::extend(size_t level, int start, int end, bool first, std::vector<Entry> &table) {
  int64_t size = levels[level].size;
  const Entry *ahead = &table[static_cast<size_t>(start) * (size + 1)];
  Entry *result = &table[static_cast<size_t>(end) * (size + 1)];
  double unit = level == 0 ? ms(start, end) : below(level, start)[end];
  double parameters = parameterMs(level, start, end), cut = first ? 0 : crossing(level, start);
  auto time = [&](int64_t m) { return stageMs(cost, unit, parameters, m); };
  if (first) {
    Entry best{unreached};
    for (int64_t m = 1; m <= size; ++m) {
      if (double ms = time(m); ms < best.ms)
        best = {ms, start, static_cast<int>(m)};
      result[m] = best;
    }
    return;
  }
  if (std::max(cut, unit / static_cast<double>(size)) >= result[1].ms)
    return;
  // Two replicas may be slower than one, so one replica is tried separately.
  auto offer = [&](int64_t units, int64_t m) {
    double ms = std::max({ahead[units - m].ms, cut, time(m)});
    if (ms < result[units].ms)
      result[units] = {ms, start, static_cast<int>(m)};
  };
  for (int64_t units = 2, m = 2; units <= size; ++units) {
    if (cut >= result[units].ms)
      return; // with more units the time is no longer
    if (std::max(ahead[units - 1].ms, unit / static_cast<double>(units - 1)) >= result[units].ms)
      continue;
    offer(units, 1);
    while (m < units - 1 && ahead[units - m].ms < time(m))
      ++m;
    if (m < units)
      offer(units, m);
    if (m > 2)
      offer(units, m - 1);
  }
}

/// The fewest units of the outermost level, up to `most`, with which a stage is within the limit; else `most` + 1.
int64_t Hierarchy::unitsFor(int start, int end, int64_t most, double limit) {
  size_t level = levels.size() - 1;
  double devices = 1; // of a unit
  for (const PipeLevel &inner : levels.drop_back())
    devices *= static_cast<double>(inner.size);
  if (ms(start, end) > limit * roundingSlack * devices * static_cast<double>(most))
    return most + 1;
  double unit = below(level, start)[end], parameters = parameterMs(level, start, end);
  for (int64_t units = 1; units <= most; ++units)
    if (stageMs(cost, unit, parameters, units) <= limit)
      return units;
  return most + 1;
}

/// Whether stages within the limit can hold the whole network.
bool Hierarchy::reach(double limit) {
  size_t level = levels.size() - 1;
  int64_t size = levels[level].size;
  reached.assign(kept.size(), {-1, -1, size + 1});
  ofLast.assign(kept.size(), 0);
  reached[0].units = 0;
  std::vector<std::vector<int>> starts(size + 1); // by units
  starts[0].push_back(0);
  for (int end = 1; end < considered(); ++end) {
    if (crossing(level, end) > limit)
      continue;
    Choice &best = reached[end];
    std::vector<int> tried; // a start that one of these contains is no better
    for (int64_t units = 0; units + 1 < best.units; ++units) {
      tried.clear();
      for (int start : llvm::reverse(starts[units])) {
        if (!within[at(start, end)] || llvm::any_of(tried, [&](int other) { return within[at(start, other)]; }))
          continue;
        tried.push_back(start);
        int64_t need = unitsFor(start, end, best.units - units - 1, limit);
        if (units + need < best.units) {
          best = {start, end, units + need};
          ofLast[end] = need;
        }
        if (best.units <= units + 1)
          break;
      }
    }
    if (best.units <= size)
      starts[best.units].push_back(end);
  }
  return reached.back().units <= size;
}

std::vector<Hierarchy::Choice> Hierarchy::choices() const {
  std::vector<Choice> result;
  for (int end = considered() - 1; end > 0; end = reached[end].start)
    result.push_back({reached[end].start, end, ofLast[end]});
  std::reverse(result.begin(), result.end());
  return result;
}

double Hierarchy::slowest(const std::vector<Choice> &choices) {
  size_t level = levels.size() - 1;
  double result = 0;
  for (const Choice &choice : choices)
    result = std::max({result, crossing(level, choice.end),
                       stageMs(cost, below(level, choice.start)[choice.end],
                               parameterMs(level, choice.start, choice.end), choice.units)});
  return result;
}

/// The stages of the outermost level: the fastest, and of these the fewest units.
std::vector<Hierarchy::Choice> Hierarchy::outermost() {
  double devices = 1;
  for (const PipeLevel &level : levels)
    devices *= static_cast<double>(level.size);
  int last = considered() - 1;
  std::vector<Choice> best;
  for (int64_t units = 1; units <= levels.back().size; ++units)
    if (std::vector<Choice> single{{0, last, units}}; best.empty() || slowest(single) * roundingSlack < slowest(best))
      best = single;
  double high = slowest(best), low = ms(0, last) / devices * (2 - roundingSlack);
  for (int step = 1; high > low * roundingSlack && high > 0; ++step) {
    double middle = step % 3 == 0 ? high * (2 - roundingSlack) : (low + high) / 2;
    if (reach(middle)) {
      best = choices();
      high = std::min(middle, slowest(best));
    } else {
      low = middle;
    }
  }
  return high > 0 && reach(high * roundingSlack) ? choices() : best;
}

/// The stages between two cuts on all units of a level, or on the fewest units with the same time.
std::vector<Hierarchy::Choice> Hierarchy::inside(size_t level, int inner, int outer) {
  std::vector<Entry> table = solveFrom(level, inner, /*all=*/true);
  size_t size = levels[level].size;
  double limit = table[static_cast<size_t>(outer) * (size + 1) + size].ms * roundingSlack;
  std::vector<Choice> result;
  for (size_t left = size; outer != inner;) {
    const Entry *row = &table[static_cast<size_t>(outer) * (size + 1)];
    left = std::partition_point(row + 1, row + left, [&](const Entry &e) { return e.ms > limit; }) - row;
    result.insert(result.begin(), {row[left].start, outer, row[left].replicas});
    outer = row[left].start;
    left -= row[left].replicas;
  }
  return result;
}

/// The stages of a level, those inside of its units included.
std::vector<Hierarchy::Stage> Hierarchy::expand(size_t level, const std::vector<Choice> &choices) {
  std::vector<Stage> result;
  for (const Choice &choice : choices) {
    std::vector<Stage> parts;
    if (level == 0)
      parts.push_back({kept[choice.start], kept[choice.end], {}, ms(choice.start, choice.end), 0});
    else
      parts = expand(level - 1, inside(level - 1, choice.start, choice.end));
    for (Stage &part : parts) {
      part.perLevel.push_back(choice.units);
      part.ms = stageMs(cost, part.ms, parameterMs(level, choice.start, choice.end), choice.units);
      part.transferMs /= static_cast<double>(choice.units);
    }
    parts.back().transferMs = &choice == &choices.back() ? 0 : crossing(level, choice.end);
    result.insert(result.end(), parts.begin(), parts.end());
  }
  return result;
}

std::vector<Hierarchy::Stage> Hierarchy::run() { return expand(levels.size() - 1, outermost()); }
