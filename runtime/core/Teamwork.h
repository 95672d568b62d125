//===- Teamwork.h - whether a second thread pays -----------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CORE_TEAMWORK_H
#define DIVISI_RUNTIME_CORE_TEAMWORK_H

#include <array>
#include <cstdint>

namespace divisi::runtime {

/// Chooses between one thread and a team for the small work of one call, by the time that both take here: a team's end
/// costs a microsecond or two, its beginning ten times as much where its threads sleep.
class Teamwork {
public:
  enum Way { alone, awake, asleep }; // a team that spins, or one that sleeps

  /// The way to go, given what the team does now: `awake` or `asleep`. Each is tried some times first, and seldom later.
  Way choose(Way team) const;
  /// Notes the nanoseconds of a run.
  void note(Way way, double nanoseconds);
  /// Nanoseconds that a team saves that is awake; a guess before it was tried.
  double gain() const;
  /// How much longer this run of a team that slept took than one of a team that is awake; 0 if that is not known.
  double longer(double nanoseconds) const;

  /// What the calls behind this one gain if it wakes the team.
  double ahead = 0;

private:
  static constexpr int tries = 4; // and one before them that does not count: its data may be far away

  struct Record {
    int runs = -1;
    double mean = 0;
  };
  std::array<Record, 3> records;
  int64_t runs = 0;
};

/// Calls that run alone because each is too small to wake the team for: together they may not be.
class AsleepCalls {
public:
  void add(Teamwork &call);
  /// A call behind them wakes the team in any case.
  void addWaking() { missed += first ? waking : 0; }
  /// Notes what a call took whose team slept, longer than usual.
  void noteWaking(double nanoseconds);
  /// The team is awake, or would have fallen asleep again behind them.
  void end();

  int64_t last = 0; // when the last small call ended (divisi_team_now)

private:
  Teamwork *first = nullptr;
  double missed = 0;     // nanoseconds, by the calls behind the first
  double waking = 20000; // nanoseconds to wake a team, as far as they are known
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CORE_TEAMWORK_H
