#include "runtime/core/Teamwork.h"

#include <algorithm>

using namespace divisi::runtime;

/// A team must be faster by this share: the times of short calls vary.
static constexpr double clearly = 0.9;
/// The weight of a run in the mean, and the most of the mean that it counts as: the system may have interrupted it.
static constexpr double weight = 0.125, mostOfMean = 3;

/// One run in 64 goes the other way, whose time may have changed; fewer where that wakes the team.
static constexpr int64_t lookAgain = 64, lookAgainAsleep = 512;

Teamwork::Way Teamwork::choose(Way team) const {
  if (records[alone].runs < tries)
    return alone;
  if (records[team].runs < tries)
    return team;
  const bool better = records[team].mean < clearly * records[alone].mean + (team == asleep ? ahead : 0);
  const bool again = runs % (team == awake ? lookAgain : lookAgainAsleep) == 0;
  return better != again ? team : alone;
}

void Teamwork::note(Way way, double nanoseconds) {
  ++runs;
  Record &record = records[way];
  if (++record.runs == 0)
    return;
  record.mean = record.runs == 1 ? nanoseconds
                                 : record.mean + weight * (std::min(nanoseconds, mostOfMean * record.mean) - record.mean);
}

double Teamwork::gain() const {
  constexpr double untried = 0.3; // of the time
  return records[awake].runs < tries ? untried * records[alone].mean
                                     : std::max(0.0, records[alone].mean - records[awake].mean);
}

double Teamwork::longer(double nanoseconds) const {
  return records[awake].runs < tries ? 0 : nanoseconds - records[awake].mean;
}

void AsleepCalls::add(Teamwork &call) {
  if (first)
    missed += call.gain();
  else
    first = &call;
}

void AsleepCalls::noteWaking(double nanoseconds) {
  if (nanoseconds > 0)
    waking += weight * (std::min(nanoseconds, mostOfMean * waking) - waking);
}

void AsleepCalls::end() {
  if (first)
    first->ahead = missed;
  first = nullptr;
  missed = 0;
}
