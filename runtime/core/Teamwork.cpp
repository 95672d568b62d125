#include "runtime/core/Teamwork.h"

#include <algorithm>
#include <iterator>

using namespace divisi::runtime;

/// How often each way is tried before it is judged.
static constexpr int tries = 4;
/// A task keeps its way for a block of runs: in the first ones, data moves between the caches of its threads.
static constexpr int64_t moving = 2;
/// Blocks in which the calls of a task try their ways, then those in which the task tries each of its own.
static constexpr int64_t settling = 3, taskTries = 2;

/// A team must be faster by this share: the times of short calls vary.
static constexpr double clearly = 0.9, taskClearly = 0.98;

/// One run in 64 goes the other way, whose time may have changed; fewer where that wakes the team.
static constexpr int64_t lookAgain = 64, lookAgainAsleep = 512;
/// Of a task, one block in 24, and of the first ones, when the program may not have had all cores, one in 6.
static constexpr int64_t lookAgainAtTask = 24, lookAgainAtFirst = 6, firstLooks = 48;

/// Runs of which the least counts at first.
static constexpr int first = 4;

void RecentMean::add(double nanoseconds) {
  /// The weight of a run, and the most of the mean that it counts as: the system may have interrupted it.
  constexpr double weight = 0.125, mostOfMean = 1.25;
  if (++runs == 0)
    return;
  if (runs <= first)
    mean = runs == 1 ? nanoseconds : std::min(mean, nanoseconds);
  else
    mean += weight * (std::min(nanoseconds, mostOfMean * mean) - mean);
}

void RecentMean::restart(double nanoseconds) {
  mean = nanoseconds;
  runs = first;
}

Teamwork::Way Teamwork::choose(Way team) const {
  if (means[alone].count() < tries)
    return alone;
  if (means[team].count() < tries)
    return team;
  const bool better = means[team].nanoseconds() < clearly * means[alone].nanoseconds();
  const bool again = runs % (team == awake ? lookAgain : lookAgainAsleep) == 0;
  return better != again ? team : alone;
}

void Teamwork::note(Way way, double nanoseconds) {
  ++runs;
  means[way].add(nanoseconds);
}

SmallCalls TaskTeamwork::choose() {
  if (runs % std::ssize(times) == 0)
    way = ofBlock(runs / std::ssize(times));
  return way;
}

SmallCalls TaskTeamwork::ofBlock(int64_t block) {
  constexpr SmallCalls ways[] = {SmallCalls::alone, SmallCalls::byChoice, SmallCalls::inTeam};
  if (block < settling)
    return SmallCalls::byChoice;
  if (block < settling + taskTries * std::ssize(ways))
    return ways[block % std::ssize(ways)];
  SmallCalls best = SmallCalls::alone;
  auto meanOf = [&](SmallCalls other) { return means[static_cast<size_t>(other)].nanoseconds(); };
  for (SmallCalls other : ways)
    if (meanOf(other) < taskClearly * meanOf(best))
      best = other;
  looking = false;
  const int64_t every = block < firstLooks ? lookAgainAtFirst : lookAgainAtTask;
  if (block % every != 0)
    return best;
  const int64_t next = 1 + block / every % 2; // one of the two others
  looking = true;
  return ways[(static_cast<int64_t>(best) + next) % std::ssize(ways)];
}

void TaskTeamwork::note(double nanoseconds) {
  const int64_t block = runs / std::ssize(times), number = runs % std::ssize(times);
  ++runs;
  times[static_cast<size_t>(number)] = nanoseconds;
  RecentMean &mean = means[static_cast<size_t>(way)];
  if (looking && number == std::ssize(times) - 1) { // what it took before may be the machine's fault
    const auto middle = times.begin() + (moving + std::ssize(times)) / 2;
    std::nth_element(times.begin() + moving, middle, times.end());
    mean.restart(*middle);
  } else if (!looking && block >= settling && number >= moving) {
    mean.add(nanoseconds);
  }
}
