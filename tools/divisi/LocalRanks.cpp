#include "tools/divisi/LocalRanks.h"
#include "runtime/main/ExitCodes.h"
#include "tools/divisi/Meeting.h"
#include "tools/divisi/Processes.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <iostream>
#include <limits>
#include <sys/wait.h>
#include <unistd.h>

using namespace divisi;
using namespace divisi::tools;
using compiler::RankEnd;
using runtime::Clock;

namespace {
/// Time in which ranks notice that another one is lost, report it and end.
constexpr auto grace = std::chrono::seconds(3);
/// Time in which all end when one has ended in order.
constexpr auto atTheEnd = std::chrono::seconds(4);
} // namespace

struct LocalRanks::Rank {
  pid_t pid;
  bool lives = true, killed = false;
  bool isMissed = false; // lost, and the others go on
  int status = 0, stoppedLooks = 0;
  std::optional<Clock::time_point> again = {}; // when it is replaced

  /// And what it has started, if it is a script. One that is stopped (SIGSTOP) acts on a signal when it goes on.
  void tell(int signal) const { kill(-pid, signal), kill(-pid, SIGCONT); }

  /// Whether it has been stopped for some seconds, of the looks that are taken five times a second.
  bool hasStopped() { return (stoppedLooks = isStopped(pid) ? stoppedLooks + 1 : 0) > 10; }

  /// Whether the others have perhaps gone on without it, since it was silent.
  bool isLeftBehind() const { return WIFEXITED(status) && WEXITSTATUS(status) == runtime::leftBehind; }

  /// Whether it has ended as the others will: complete, or told to stop.
  bool endedInOrder() const { return WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) >= 128); }

  RankEnd end() const {
    if (isMissed)
      return RankEnd::finished;
    if (killed)
      return RankEnd::killed;
    if (WIFSIGNALED(status))
      return isStopSignal(meaningOf(WTERMSIG(status))) ? RankEnd::stopped : RankEnd::lost;
    int code = WEXITSTATUS(status);
    return code == 0                      ? RankEnd::finished
           : code == runtime::failedAlone ? RankEnd::failedAlone
           : code == runtime::gaveUp      ? RankEnd::gaveUp
           : code >= 128                  ? RankEnd::stopped
                                          : RankEnd::failed;
  }

  /// The exit code that says the same to those who know nothing of ranks.
  int code() const {
    if (WIFSIGNALED(status))
      return 128 + meaningOf(WTERMSIG(status));
    int code = WEXITSTATUS(status);
    return code == runtime::failedAlone || code == runtime::gaveUp || code == runtime::leftBehind ? 1 : code;
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
                                    std::optional<int64_t> stopAfter, const Spared &spared) {
  Outcome outcome;
  std::vector<Rank> ranks;
  std::string problem;
  const pid_t parent = getpid();
  Meeting where{count, 0, spared.end > 1};
  auto start = [&](int64_t rank, const runtime::Socket *listener) {
    pid_t pid = fork();
    if (pid == 0) {
      becomeChild(parent, before, toRanks(SIGTERM, count));
      becomeRank(words, rank, where, listener);
      if (rank == 0)
        std::cerr << "error: cannot start '" << words[0] << "': " << std::strerror(errno) << std::endl;
      _exit(1);
    }
    if (pid > 0)
      setpgid(pid, pid); // as it does itself, perhaps later
    else
      problem = std::string("cannot start a process: ") + std::strerror(errno);
    return pid;
  };
  {
    runtime::Socket listener = runtime::listenAnywhere();
    if (!listener)
      problem = std::string("no port of 127.0.0.1: ") + std::strerror(errno);
    where.port = runtime::Address::ofThisEnd(listener).port();
    for (int64_t rank = 0; rank < count && problem.empty(); ++rank)
      if (pid_t pid = start(rank, &listener); pid >= 0)
        ranks.push_back({pid});
  }
  auto tell = [&](int signal) {
    for (const Rank &rank : ranks)
      if (rank.lives)
        rank.tell(signal);
  };
  std::optional<Clock::time_point> until, stopAt, silentUntil; // silentUntil: a rank has ended in order
  if (stopAfter)
    stopAt = Clock::now() + std::chrono::seconds(*stopAfter);
  if (!problem.empty()) {
    std::cerr << "error: " << problem << std::endl;
    until = Clock::now();
  }
  auto anyLives = [&] { return std::any_of(ranks.begin(), ranks.end(), [](const Rank &rank) { return rank.lives; }); };
  int64_t replaced = 0;
  auto living = [&] { return std::count_if(ranks.begin(), ranks.end(), [](const Rank &rank) { return rank.lives; }); };
  // Whether the others go on without a rank that has ended.
  auto spares = [&](size_t rank) {
    return rank > 0 && static_cast<int64_t>(rank) < spared.end && living() >= spared.least && !outcome.wasAsked &&
           !until && ranks[0].lives && (compiler::lostRanks({ranks[rank].end()}, true) > 0 || ranks[rank].isLeftBehind());
  };
  while (anyLives()) {
    timespec pause = {0, 200'000'000};
    int signal = sigtimedwait(&awaited, nullptr, &pause);
    if (signal > 0 && isStopSignal(signal)) {
      if (outcome.wasAsked) // a second time: it is urgent
        until = std::min(until.value_or(Clock::time_point::max()), Clock::now() + grace);
      tell(outcome.wasAsked ? signal : toRanks(signal, count));
      outcome.wasAsked = true;
    }
    for (size_t number = 0; number < ranks.size(); ++number) {
      Rank &rank = ranks[number];
      if (rank.lives && waitpid(rank.pid, &rank.status, WNOHANG) == rank.pid) {
        rank.lives = false;
        if (spares(number)) {
          rank.isMissed = true;
          std::cerr << "divisi run: rank " << number << " lost; " << living() << " of " << count << " ranks go on"
                    << std::endl;
          if (spared.replaceAfter && replaced++ < spared.most.value_or(std::numeric_limits<int64_t>::max()))
            rank.again = Clock::now() + std::chrono::seconds(*spared.replaceAfter);
        } else if (!until && !rank.isMissed && !rank.endedInOrder()) {
          until = Clock::now() + grace;
        }
        if (rank.endedInOrder() && (!silentUntil || number == 0))
          silentUntil = Clock::now() + atTheEnd;
      }
      if (rank.again && Clock::now() >= *rank.again && ranks[0].lives && !until && !outcome.wasAsked) {
        std::cerr << "divisi run: rank " << number << " is started again" << std::endl;
        if (pid_t pid = start(static_cast<int64_t>(number), nullptr); pid >= 0)
          rank = {pid};
        else
          rank.again = Clock::now() + grace; // it is tried again
        problem.clear();
      }
    }
    // When ranks end, all have computed everything; others may still write results, or do what a script does after them.
    if (silentUntil && !until && Clock::now() >= *silentUntil)
      for (size_t number = 0; number < ranks.size(); ++number)
        if (Rank &rank = ranks[number]; rank.lives && !rank.isMissed && rank.hasStopped()) {
          std::cerr << "divisi run: rank " << number << " is silent, the others have ended: it is ended" << std::endl;
          rank.isMissed = number > 0;
          rank.tell(SIGKILL);
        }
    if (until && Clock::now() >= *until)
      for (Rank &rank : ranks)
        if (rank.lives) {
          rank.killed = true;
          rank.tell(SIGKILL);
        }
    if (stopAt && !until && !outcome.wasAsked && !outcome.wasStopped && Clock::now() >= *stopAt) {
      outcome.wasStopped = true;
      tell(toRanks(SIGTERM, count));
    }
  }
  for (Rank &rank : ranks) {
    rank.isMissed = rank.isMissed && ranks[0].endedInOrder(); // else the others did not go on
    outcome.ends.push_back(rank.end());
  }
  for (RankEnd first : {RankEnd::lost, RankEnd::failedAlone, RankEnd::failed, RankEnd::gaveUp, RankEnd::stopped, RankEnd::killed})
    for (const Rank &rank : ranks)
      if (outcome.code == 0 && rank.end() == first)
        outcome.code = rank.code();
  if (!problem.empty())
    outcome.code = 1;
  return outcome;
}
