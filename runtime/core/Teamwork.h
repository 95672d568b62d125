//===- Teamwork.h - whether a second thread pays -----------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CORE_TEAMWORK_H
#define DIVISI_RUNTIME_CORE_TEAMWORK_H

#include <array>
#include <cstdint>

namespace divisi::runtime {

/// The mean of what runs of one piece of work take, of which the newest count most.
class RecentMean {
public:
  /// Notes the nanoseconds of a run. The first one does not count: its data may be far away.
  void add(double nanoseconds);
  /// Forgets all runs but those that took this long.
  void restart(double nanoseconds);
  /// Runs that count.
  int count() const { return runs; }
  double nanoseconds() const { return mean; }

private:
  int runs = -1;
  double mean = 0;
};

/// Chooses between one thread and a team for the small work of one call, by the time that both take here: a team's end
/// costs a microsecond or two, its beginning ten times as much where its threads sleep.
class Teamwork {
public:
  enum Way { alone, awake, asleep }; // a team that spins, or one that sleeps

  /// The way to go, given what the team does now: `awake` or `asleep`. Each is tried some times first, and seldom later.
  Way choose(Way team) const;
  /// Notes the nanoseconds of a run.
  void note(Way way, double nanoseconds);

private:
  std::array<RecentMean, 3> means;
  int64_t runs = 0;
};

/// How the small calls of a task are computed.
enum class SmallCalls { alone, byChoice, inTeam };

/// Chooses for a task how its small calls are computed. They do not know that those behind them wait for a team that falls
/// asleep meanwhile, or that a core is slower while another one spins.
class TaskTeamwork {
public:
  /// Each way is tried some times when the calls know their own ways, and seldom later.
  SmallCalls choose();
  /// Notes the nanoseconds of the run that was chosen last.
  void note(double nanoseconds);

private:
  SmallCalls ofBlock(int64_t block);

  std::array<RecentMean, 3> means; // by SmallCalls
  SmallCalls way = SmallCalls::byChoice;
  bool looking = false; // whether the block tries another way than the best again
  std::array<double, 8> times; // of a block
  int64_t runs = 0;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CORE_TEAMWORK_H
