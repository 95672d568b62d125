//===- Signals.h - requests to stop -----------------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_MAIN_SIGNALS_H
#define DIVISI_RUNTIME_MAIN_SIGNALS_H

namespace divisi::runtime {

/// Handles SIGINT, SIGTERM and SIGHUP (unless it is ignored) during its own lifetime: they end the program immediately,
/// until `defer` is called.
class StopSignals {
public:
  /// `forwarded`: SIGUSR1 and SIGUSR2 stand for SIGTERM and SIGINT. mpirun forwards these immediately, whereas after a
  /// SIGTERM to itself it sends SIGKILL to all ranks.
  explicit StopSignals(bool forwarded = false);
  ~StopSignals();
  /// From now on the first signal is only recorded, because there is something to save; a second one ends the program
  /// immediately.
  static void defer();
  StopSignals(const StopSignals &) = delete;
  StopSignals &operator=(const StopSignals &) = delete;

  /// The signal that was received, or 0.
  static int received();
  /// Whether it was SIGTERM itself, from the process that has started this one: mpirun sends it when a rank is lost, a second before it kills the
  /// others.
  static bool isUrgent();
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_MAIN_SIGNALS_H
