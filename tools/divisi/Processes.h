//===- Processes.h - processes of a job, and those of the system --------------*- C++ -*-===//
#ifndef DIVISI_TOOLS_DIVISI_PROCESSES_H
#define DIVISI_TOOLS_DIVISI_PROCESSES_H

#include <algorithm>
#include <csignal>
#include <iterator>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace divisi::tools {

/// Makes a forked process one of a job of `parent`: in a process group of its own, so that a terminal's Ctrl-C reaches
/// it only through the parent, without input, with these signals blocked, and told by `deathSignal` when the parent
/// ends.
void becomeChild(pid_t parent, const sigset_t &blocked, int deathSignal);

/// Replaces the process by a command; returns if it cannot be started, with the reason in errno.
void replaceBy(const std::vector<std::string> &words);

/// Signals that ask a program to stop, with a checkpoint. A rank that gets one, from anybody, ends the job.
inline constexpr int stopSignals[] = {SIGINT, SIGTERM, SIGHUP};
inline bool isStopSignal(int signal) {
  return std::find(std::begin(stopSignals), std::end(stopSignals), signal) != std::end(stopSignals);
}

/// What ranks are sent in place of a signal. SIGTERM itself ends them before a step is complete: a launcher sends it when
/// another rank is lost. A program alone knows the signals as they are.
inline int toRanks(int signal, int64_t count) {
  return count == 1 ? signal : signal == SIGTERM ? SIGUSR1 : signal == SIGINT ? SIGUSR2 : signal;
}

/// The signal that a rank was to understand.
inline int meaningOf(int signal) { return signal == SIGUSR1 ? SIGTERM : signal == SIGUSR2 ? SIGINT : signal; }

/// The children of a process that have not ended, and whether each is stopped (SIGSTOP); nothing if the system does not provide this.
struct Child {
  pid_t pid;
  bool isStopped;
};
std::optional<std::vector<Child>> livingChildren(pid_t parent);

/// Whether a process is stopped.
bool isStopped(pid_t pid);

} // namespace divisi::tools

#endif // DIVISI_TOOLS_DIVISI_PROCESSES_H
