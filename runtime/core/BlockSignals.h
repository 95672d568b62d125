//===- BlockSignals.h - threads that get no signals -------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CORE_BLOCKSIGNALS_H
#define DIVISI_RUNTIME_CORE_BLOCKSIGNALS_H

#include <csignal>

namespace divisi::runtime {

/// Called at the beginning of a thread: signals are for the thread that computes.
inline void blockSignals() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CORE_BLOCKSIGNALS_H
