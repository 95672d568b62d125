#include "runtime/main/Signals.h"

#include <atomic>
#include <csignal>

using namespace divisi::runtime;

namespace {
// Ranks may be threads of one process, which begin and end concurrently.
std::atomic<int> receivedSignal = 0, actualSignal = 0;
std::atomic<bool> forwarding = false;
static_assert(std::atomic<int>::is_always_lock_free); // required in a signal handler

int meaningOf(int signal) { return signal == SIGUSR1 ? SIGTERM : signal == SIGUSR2 ? SIGINT : signal; }

void end(int signal) {
  std::signal(meaningOf(signal), SIG_DFL);
  raise(meaningOf(signal));
}

void note(int signal) {
  // A SIGTERM after a signal that mpirun forwarded is mpirun's own: another rank was lost.
  bool launchers = signal == SIGTERM && (actualSignal == SIGUSR1 || actualSignal == SIGUSR2);
  if (receivedSignal != 0 && !launchers)
    return end(signal);
  actualSignal = signal;
  receivedSignal = meaningOf(signal);
}

void install(void (*handler)(int)) {
  struct sigaction action = {}, before = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
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
  forwarding = forwarded;
  install(end);
}
StopSignals::~StopSignals() { install(SIG_DFL); }

void StopSignals::defer() { install(note); }

int StopSignals::received() { return receivedSignal; }
bool StopSignals::isUrgent() { return actualSignal == SIGTERM; }
