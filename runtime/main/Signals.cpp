#include "runtime/main/Signals.h"

#include <csignal>

using namespace divisi::runtime;

namespace {
volatile std::sig_atomic_t receivedSignal = 0;

void install(void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESETHAND | SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}
} // namespace

StopSignals::StopSignals() {
  receivedSignal = 0;
  install([](int signal) { receivedSignal = signal; });
}
StopSignals::~StopSignals() { install(SIG_DFL); }

int StopSignals::received() { return receivedSignal; }
