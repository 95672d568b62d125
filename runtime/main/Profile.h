//===- Profile.h - measured times of a program's calls ----------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_MAIN_PROFILE_H
#define DIVISI_RUNTIME_MAIN_PROFILE_H

#include "runtime/core/Manifest.h"
#include "runtime/core/Recorder.h"

#include <memory>
#include <string>

namespace divisi::runtime {

/// Collects the times of training steps, and writes them beside what the compiler expected: a profile (medians, one
/// line of JSON for each call, which `divisi profile --from` reads) and a trace of the last step on all ranks (for
/// chrome://tracing).
class Profile {
public:
  Profile(const Manifest &manifest, int threads);

  /// What to give the context while a step runs.
  Recorder recorder;
  /// A step has ended: the task took `task` seconds, the whole step with its data `step`. Steps that did more than what
  /// every step does (norms, metrics) are not counted.
  void add(double task, double step);

  /// The calls of a step on this rank with their times, a line for each; nothing where another rank of the stage has
  /// the same.
  std::string lines() const;
  /// A head, with this rank's steps, and such lines of all ranks.
  Status writeProfile(const std::string &path, const std::vector<std::string> &lists) const;
  /// What calls of each kind take of a step on this rank, measured and as the compiler expected, longest first: lines
  /// for a terminal. Nothing without steps.
  std::string table() const;
  /// The events of the last step on this rank, as a list in JSON: what was called, for which task, and what travelled.
  std::string traceEvents() const;
  /// Joins such lists, of all ranks.
  static Status writeTrace(const std::string &path, const std::vector<std::string> &lists);

private:
  /// The times of the first steps are left out: caches are cold, libraries choose their ways.
  static constexpr int64_t warmUp = 3;

  /// How a call travelled, if it is a collective or a transfer whose times were taken.
  static const Recorder::Span *travelOf(const Call &call, size_t occurrence, const Recorder::ById &collectives,
                                        const Recorder::ById &sends);

  const Manifest &manifest;
  int threads;
  std::vector<size_t> occurrences; ///< by call: how many before it have the same kind and id
  int64_t seen = 0;
  std::vector<std::vector<double>> times; ///< by call; a collective's own time, not that of starting it
  std::vector<double> tasks, steps;
  std::vector<Recorder::Span> lastCalls;
  Recorder::ById lastCollectives, lastSends;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_MAIN_PROFILE_H
