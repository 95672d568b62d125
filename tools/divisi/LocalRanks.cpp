#include "tools/divisi/LocalRanks.h"
#include "runtime/comm/tcp/Socket.h"
#include "runtime/main/ExitCodes.h"
#include "tools/divisi/Processes.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <iostream>
#include <netinet/in.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace divisi;
using namespace divisi::tools;
using compiler::RankEnd;
using runtime::Clock;

namespace {
/// Time in which ranks notice that another one is lost, report it and end.
constexpr auto grace = std::chrono::seconds(3);

constexpr int stopSignals[] = {SIGINT, SIGTERM, SIGHUP};

bool isStopSignal(int signal) {
  return std::find(std::begin(stopSignals), std::end(stopSignals), signal) != std::end(stopSignals);
}

/// What ranks are sent in place of a signal. SIGTERM itself ends them before a step is complete: a launcher sends it when
/// another rank is lost. A program alone knows the signals as they are.
int toRanks(int signal, int64_t count) {
  return count == 1 ? signal : signal == SIGTERM ? SIGUSR1 : signal == SIGINT ? SIGUSR2 : signal;
}

/// The signal that a rank was to understand.
int meaningOf(int signal) { return signal == SIGUSR1 ? SIGTERM : signal == SIGUSR2 ? SIGINT : signal; }

/// A socket that waits at a free port of this host.
runtime::Socket listenAnywhere() {
  runtime::Address address;
  auto &name = reinterpret_cast<sockaddr_in &>(address.name);
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.length = sizeof name;
  return runtime::listenAt(address, 128);
}

/// Becomes a rank; returns if the program cannot be started.
void execute(const std::vector<std::string> &words, int64_t rank, int64_t ranks, const runtime::Socket &listener) {
  auto set = [](const char *name, const std::string &value) { setenv(name, value.c_str(), 1); };
  for (const char *name :
       {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_USE_AGENT_STORE", "LOCAL_WORLD_SIZE", "DIVISI_LISTENER", "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "PMI_RANK", "PMIX_RANK"})
    unsetenv(name); // of a launcher that has started this process
  set("RANK", std::to_string(rank));
  set("LOCAL_RANK", std::to_string(rank));
  set("WORLD_SIZE", std::to_string(ranks));
  set("MASTER_ADDR", "127.0.0.1");
  set("MASTER_PORT", std::to_string(runtime::Address::ofThisEnd(listener).port()));
  set(runtime::tellsFailures, "1");
  if (rank == 0) { // the port cannot be taken by others meanwhile
    set("DIVISI_LISTENER", std::to_string(listener.get()));
    fcntl(listener.get(), F_SETFD, 0);
  }
  replaceBy(words);
}
} // namespace

struct LocalRanks::Rank {
  pid_t pid;
  bool lives = true, killed = false;
  int status = 0;

  /// Whether it has ended as the others will: complete, or told to stop.
  bool endedInOrder() const { return WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) >= 128); }

  RankEnd end() const {
    if (killed)
      return RankEnd::killed;
    if (WIFSIGNALED(status))
      return isStopSignal(meaningOf(WTERMSIG(status))) ? RankEnd::stopped : RankEnd::lost;
    int code = WEXITSTATUS(status);
    return code == 0                      ? RankEnd::finished
           : code == runtime::failedAlone ? RankEnd::lost
           : code == runtime::gaveUp      ? RankEnd::gaveUp
           : code >= 128                  ? RankEnd::stopped
                                          : RankEnd::failed;
  }

  /// The exit code that says the same to those who know nothing of ranks.
  int code() const {
    if (WIFSIGNALED(status))
      return 128 + meaningOf(WTERMSIG(status));
    int code = WEXITSTATUS(status);
    return code == runtime::failedAlone || code == runtime::gaveUp ? 1 : code;
  }
};

LocalRanks::LocalRanks() {
  std::signal(SIGCHLD, SIG_DFL); // the parent may have ignored it
  sigemptyset(&awaited);
  sigaddset(&awaited, SIGCHLD);
  struct sigaction hup = {};
  sigaction(SIGHUP, nullptr, &hup);
  for (int signal : stopSignals)
    if (signal != SIGHUP || hup.sa_handler != SIG_IGN) // nohup ignores SIGHUP, which is kept
      sigaddset(&awaited, signal);
  sigprocmask(SIG_BLOCK, &awaited, &before);
}

LocalRanks::~LocalRanks() { sigprocmask(SIG_SETMASK, &before, nullptr); }

LocalRanks::Outcome LocalRanks::run(const std::vector<std::string> &words, int64_t count,
                                    std::optional<int64_t> stopAfter) {
  Outcome outcome;
  std::vector<Rank> ranks;
  std::string problem;
  const pid_t parent = getpid();
  {
    runtime::Socket listener = listenAnywhere();
    if (!listener)
      problem = std::string("no port of 127.0.0.1: ") + std::strerror(errno);
    for (int64_t rank = 0; rank < count && problem.empty(); ++rank) {
      pid_t pid = fork();
      if (pid == 0) {
        becomeChild(parent, before, toRanks(SIGTERM, count));
        execute(words, rank, count, listener);
        if (rank == 0)
          std::cerr << "error: cannot start '" << words[0] << "': " << std::strerror(errno) << std::endl;
        _exit(1);
      }
      if (pid < 0)
        problem = std::string("cannot start a process: ") + std::strerror(errno);
      else
        ranks.push_back({pid});
    }
  }
  auto tell = [&](int signal) {
    for (const Rank &rank : ranks)
      if (rank.lives)
        kill(rank.pid, signal);
  };
  std::optional<Clock::time_point> until, stopAt;
  if (stopAfter)
    stopAt = Clock::now() + std::chrono::seconds(*stopAfter);
  if (!problem.empty()) {
    std::cerr << "error: " << problem << std::endl;
    until = Clock::now();
  }
  auto anyLives = [&] { return std::any_of(ranks.begin(), ranks.end(), [](const Rank &rank) { return rank.lives; }); };
  while (anyLives()) {
    timespec pause = {0, 200'000'000};
    int signal = sigtimedwait(&awaited, nullptr, &pause);
    if (signal > 0 && isStopSignal(signal)) {
      if (outcome.wasAsked) // a second time: it is urgent
        until = std::min(until.value_or(Clock::time_point::max()), Clock::now() + grace);
      tell(outcome.wasAsked ? signal : toRanks(signal, count));
      outcome.wasAsked = true;
    }
    for (Rank &rank : ranks)
      if (rank.lives && waitpid(rank.pid, &rank.status, WNOHANG) == rank.pid) {
        rank.lives = false;
        if (!until && !rank.endedInOrder())
          until = Clock::now() + grace;
      }
    if (until && Clock::now() >= *until)
      for (Rank &rank : ranks)
        if (rank.lives) {
          rank.killed = true;
          kill(rank.pid, SIGKILL);
        }
    if (stopAt && !until && !outcome.wasAsked && !outcome.wasStopped && Clock::now() >= *stopAt) {
      outcome.wasStopped = true;
      tell(toRanks(SIGTERM, count));
    }
  }
  for (const Rank &rank : ranks)
    outcome.ends.push_back(rank.end());
  for (RankEnd first : {RankEnd::lost, RankEnd::failed, RankEnd::gaveUp, RankEnd::stopped, RankEnd::killed})
    for (const Rank &rank : ranks)
      if (outcome.code == 0 && rank.end() == first)
        outcome.code = rank.code();
  if (!problem.empty())
    outcome.code = 1;
  return outcome;
}
