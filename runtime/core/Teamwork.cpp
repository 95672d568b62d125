#include "runtime/core/Teamwork.h"

#include <algorithm>

using namespace divisi::runtime;

/// How often each way is tried before it is judged.
static constexpr int tries = 4, taskTries = 8;
/// The runs of a task in which its calls try theirs.
static constexpr int64_t settling = 24;

/// A team must be faster by this share: the times of short calls vary.
static constexpr double clearly = 0.9, taskClearly = 0.98;

/// One run in 64 goes the other way, whose time may have changed; fewer where that wakes the team.
static constexpr int64_t lookAgain = 64, lookAgainAsleep = 512;

void RecentMean::add(double nanoseconds) {
  /// The weight of a run, and the most of the mean that it counts as: the system may have interrupted it.
  constexpr double weight = 0.125, mostOfMean = 3;
  if (++runs == 1)
    mean = nanoseconds;
  else if (runs > 1)
    mean += weight * (std::min(nanoseconds, mostOfMean * mean) - mean);
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

bool TaskTeamwork::choose() const {
  if (runs < settling)
    return false;
  if (means[true].count() < taskTries)
    return runs % 2 == 0;
  const bool better = means[true].nanoseconds() < taskClearly * means[false].nanoseconds();
  return better != (runs % lookAgain == 0);
}

void TaskTeamwork::note(bool always, double nanoseconds) {
  if (++runs > settling)
    means[always].add(nanoseconds);
}
