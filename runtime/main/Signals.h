//===- Signals.h - being asked to stop --------------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_MAIN_SIGNALS_H
#define DIVISI_RUNTIME_MAIN_SIGNALS_H

namespace divisi::runtime {

/// What SIGINT, SIGTERM and SIGHUP (unless it is ignored) do while it lives: they end the program at once, until
/// `defer`.
class StopSignals {
public:
  /// `forwarded`: SIGUSR1 and SIGUSR2 stand for SIGTERM and SIGINT. mpirun hands these on at once, whereas it follows a
  /// SIGTERM to itself by a SIGKILL to all ranks.
  explicit StopSignals(bool forwarded = false);
  ~StopSignals();
  /// From now on the first one is only noted, for there is something to save; a second one ends the program at once.
  static void defer();
  StopSignals(const StopSignals &) = delete;
  StopSignals &operator=(const StopSignals &) = delete;

  /// The signal that came, or 0.
  static int received();
  /// Whether it was SIGTERM itself: what mpirun sends when a rank is lost, a second before it kills the others.
  static bool isUrgent();
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_MAIN_SIGNALS_H
