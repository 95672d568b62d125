#include "runtime/main/Signals.h"

#include <csignal>

using namespace divisi::runtime;

namespace {
volatile std::sig_atomic_t receivedSignal = 0;

volatile std::sig_atomic_t actualSignal = 0;
bool forwarding = false;

void note(int signal) {
  actualSignal = signal;
  receivedSignal = signal == SIGUSR1 ? SIGTERM : signal == SIGUSR2 ? SIGINT : signal;
}

void install(void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESETHAND | SA_RESTART;
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
  install(note);
}
StopSignals::~StopSignals() { install(SIG_DFL); }

int StopSignals::received() { return receivedSignal; }
bool StopSignals::isUrgent() { return actualSignal == SIGTERM; }
