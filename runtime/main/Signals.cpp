#include "runtime/main/Signals.h"

#include <atomic>
#include <csignal>
#include <unistd.h>

using namespace divisi::runtime;

namespace {
// Ranks may be threads of one process, which begin and end concurrently.
std::atomic<int> receivedSignal = 0, actualSignal = 0;
std::atomic<bool> forwarding = false, ofParent = false; // ofParent: the process that has started this one sent it
static_assert(std::atomic<int>::is_always_lock_free); // required in a signal handler

int meaningOf(int signal) { return signal == SIGUSR1 ? SIGTERM : signal == SIGUSR2 ? SIGINT : signal; }

void end(int signal, siginfo_t * = nullptr, void * = nullptr) {
  std::signal(meaningOf(signal), SIG_DFL);
  raise(meaningOf(signal));
}

void note(int signal, siginfo_t *info, void *) {
  const bool isParents = info && info->si_pid == getppid();
  // A SIGTERM of mpirun after a signal that it forwarded, or that somebody else sent, is its own: another rank was lost.
  bool launchers = signal == SIGTERM && (actualSignal == SIGUSR1 || actualSignal == SIGUSR2 || (forwarding && isParents && !ofParent));
  if (receivedSignal != 0 && !launchers)
    return end(signal);
  actualSignal = signal;
  ofParent = isParents;
  receivedSignal = meaningOf(signal);
}

void install(void (*handler)(int, siginfo_t *, void *)) {
  struct sigaction action = {}, before = {};
  if (handler)
    action.sa_sigaction = handler;
  else
    action.sa_handler = SIG_DFL;
  action.sa_flags = SA_RESTART | (handler ? SA_SIGINFO : 0);
  // nohup ignores SIGHUP: the program then outlives its terminal.
  if (sigaction(SIGHUP, nullptr, &before) == 0 && before.sa_handler != SIG_IGN)
    sigaction(SIGHUP, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  if (forwarding) {
    sigaction(SIGUSR1, &action, nullptr);
    sigaction(SIGUSR2, &action, nullptr);
  }
}
} // namespace

StopSignals::StopSignals(bool forwarded) {
  receivedSignal = 0;
  actualSignal = 0;
  ofParent = false;
  forwarding = forwarded;
  install(end);
}
StopSignals::~StopSignals() { install(nullptr); }

void StopSignals::defer() { install(note); }

int StopSignals::received() { return receivedSignal; }
bool StopSignals::isUrgent() { return actualSignal == SIGTERM && ofParent; }
