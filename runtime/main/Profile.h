//===- Profile.h - measured times of a program's calls ----------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_MAIN_PROFILE_H
#define DIVISI_RUNTIME_MAIN_PROFILE_H

#include "runtime/core/Manifest.h"
#include "runtime/core/Recorder.h"

#include <memory>
#include <string>

namespace divisi::runtime {

/// Collects the times of training steps, and writes them beside the times that the compiler expected: a profile
/// (medians, one line of JSON for each call, which `divisi profile --from` reads) and a trace of the last step on all
/// ranks (for chrome://tracing).
class Profile {
public:
  Profile(const Manifest &manifest, int threads);

  /// To be set in the context while a step runs.
  Recorder recorder;
  /// Adds a step: its task took `task` seconds, the whole step with its data `step`. Steps with values that are
  /// computed on demand (norms, metrics) are not added.
  void add(double task, double step);

  /// The calls of a step on this rank with their times, one line for each; empty if another rank of the stage has the
  /// same.
  std::string lines() const;
  /// Writes a profile: a head with this rank's steps, and such lines of all ranks.
  Status writeProfile(const std::string &path, const std::vector<std::string> &lists) const;
  /// The times of each kind of call in a step on this rank, measured and expected by the compiler, longest first: lines
  /// for a terminal. Empty without steps.
  std::string table() const;
  /// The events of the last step on this rank, as a JSON list: calls with their tasks, and communication.
  std::string traceEvents() const;
  /// Writes such lists of all ranks as one trace.
  static Status writeTrace(const std::string &path, const std::vector<std::string> &lists);

private:
  /// The first steps are not counted: caches are cold, and libraries choose their algorithms.
  static constexpr int64_t warmUp = 3;

  /// The time span of a call's communication, if it is a collective or a transfer with recorded times; else null.
  static const Recorder::Span *travelOf(const Call &call, size_t occurrence, const Recorder::ById &collectives,
                                        const Recorder::ById &sends);

  const Manifest &manifest;
  int threads;
  std::vector<size_t> occurrences; ///< by call: the number of earlier ones with the same kind and id
  int64_t seen = 0;
  std::vector<std::vector<double>> times; ///< by call; for a collective its own time, not that of starting it
  std::vector<double> tasks, steps;
  std::vector<Recorder::Span> lastCalls;
  Recorder::ById lastCollectives, lastSends;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_MAIN_PROFILE_H
