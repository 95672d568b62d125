//===- Signals.h - being asked to stop --------------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_MAIN_SIGNALS_H
#define DIVISI_RUNTIME_MAIN_SIGNALS_H

namespace divisi::runtime {

/// While it lives, the first SIGINT or SIGTERM is only noted; a second one ends the program at once.
class StopSignals {
public:
  /// `forwarded`: SIGUSR1 and SIGUSR2 stand for SIGTERM and SIGINT. mpirun hands these on at once, whereas it follows a
  /// SIGTERM to itself by a SIGKILL to all ranks.
  explicit StopSignals(bool forwarded = false);
  ~StopSignals();
  StopSignals(const StopSignals &) = delete;
  StopSignals &operator=(const StopSignals &) = delete;

  /// The signal that came, or 0.
  static int received();
  /// Whether it was SIGTERM itself: what mpirun sends when a rank is lost, a second before it kills the others.
  static bool isUrgent();
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_MAIN_SIGNALS_H
