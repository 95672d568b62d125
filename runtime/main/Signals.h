//===- Signals.h - being asked to stop --------------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_MAIN_SIGNALS_H
#define DIVISI_RUNTIME_MAIN_SIGNALS_H

namespace divisi::runtime {

/// While it lives, the first SIGINT or SIGTERM is only noted; a second one ends the program at once.
class StopSignals {
public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals &) = delete;
  StopSignals &operator=(const StopSignals &) = delete;

  /// The signal that came, or 0.
  static int received();
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_MAIN_SIGNALS_H
