#include "tools/divisi/Launch.h"
#include "runtime/main/ExitCodes.h"
#include "tools/divisi/Processes.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <iostream>
#include <map>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

using namespace divisi;
using namespace divisi::tools;

namespace {
volatile std::sig_atomic_t asked = 0; // the signal to forward
volatile std::sig_atomic_t child = 0;

/// Forwards a signal. mpirun forwards SIGUSR1 and SIGUSR2 to the ranks, which treat them as SIGTERM and SIGINT. The
/// second signal ends mpirun and all ranks immediately.
void passOn(int signal) {
  bool again = asked != 0;
  asked = signal;
  if (child > 0)
    kill(child, again ? signal : signal == SIGINT ? SIGUSR2 : SIGUSR1);
}

/// Notices processes of mpirun that are stopped while ranks do not watch each other: when they have not met yet, and when they end.
class StoppedChildren {
  using Clock = std::chrono::steady_clock;

public:
  explicit StoppedChildren(double timeout) : timeout(timeout) {}

  void look(const std::vector<Child> &children) {
    const auto now = Clock::now();
    const double passed = std::min(std::chrono::duration<double>(now - last).count(), 2.0); // more was this process's own pause
    last = now;
    std::map<pid_t, Stop> still;
    most = std::max(most, children.size());
    const bool areAll = std::all_of(children.begin(), children.end(), [](const Child &child) { return child.isStopped; });
    if (!areAll || children.size() < most) // else somebody pauses the whole job
      for (const Child &child : children)
        if (child.isStopped)
          still[child.pid] = stops.contains(child.pid) ? stops[child.pid] : Stop();
    stops = std::move(still);
    for (auto &[pid, stop] : stops) {
      stop.seconds += passed;
      if (stop.seconds >= std::min(named, timeout) && !std::exchange(stop.isNamed, true))
        std::cerr << "divisi run: process " << pid << " is stopped: 'kill -CONT " << pid << "' lets it go on; it is killed when that lasts "
                  << timeout << " s (--timeout)" << std::endl;
      if (stop.seconds >= timeout + more)
        kill(pid, SIGKILL);
    }
  }

private:
  /// Seconds until one is named, and those that ranks have to end by themselves because one is silent.
  static constexpr double named = 8, more = 4;
  struct Stop {
    double seconds = 0;
    bool isNamed = false;
  };
  const double timeout;
  size_t most = 0; ///< processes, so far
  Clock::time_point last = Clock::now();
  std::map<pid_t, Stop> stops;
};

/// Waits for a process to end. mpirun is killed when it has no child process left: it never ends if a rank was killed
/// during its initialization (PMIx 4.2.2 and later free its description twice). The processes of srun are not its
/// children.
int waitFor(pid_t launcher, bool isMpirun, double timeout) {
  constexpr int before = 300, after = 50; // tenths of a second without a child: before the first, and after the last
  sigset_t ended;
  sigemptyset(&ended);
  sigaddset(&ended, SIGCHLD);
  bool seen = false;
  int status = 0;
  StoppedChildren stopped(timeout);
  for (int alone = 0; waitpid(launcher, &status, WNOHANG) == 0;) {
    bool often = !seen || alone > 0;
    timespec pause = {often ? 0 : 1, often ? 100'000'000 : 0};
    if (sigtimedwait(&ended, nullptr, &pause) >= 0 || errno == EINTR)
      continue;
    std::optional<std::vector<Child>> children = isMpirun ? livingChildren(launcher) : std::nullopt;
    bool living = !children || !children->empty();
    if (children)
      stopped.look(*children);
    seen = seen || living;
    alone = living ? 0 : alone + 1;
    if (alone < (seen ? after : before))
      continue;
    std::cerr << "divisi run: the launcher hangs: none of its processes is left" << std::endl;
    kill(-launcher, SIGKILL);
    waitpid(launcher, &status, 0);
    break;
  }
  return status;
}
} // namespace

// An mpirun that ends removes the default folder, which all runs share, perhaps just after another one has found it.
Launch::Launch(const std::string &launcher, double timeout) : timeout(timeout) {
  asked = 0;
  struct sigaction action = {};
  action.sa_handler = passOn;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &oldInt);
  sigaction(SIGTERM, &action, &oldTerm);
  sigaction(SIGHUP, nullptr, &oldHup);
  if (oldHup.sa_handler != SIG_IGN) // nohup ignores SIGHUP, which is kept
    sigaction(SIGHUP, &action, nullptr);
  if (launcher != "mpirun")
    return;
  std::error_code error;
  folder = (std::filesystem::temp_directory_path(error) / "divisi-run-XXXXXX").string();
  if (error || !mkdtemp(folder.data()))
    folder.clear(); // mpirun reports the missing folder
  else
    setenv("TMPDIR", folder.c_str(), 1); // for this machine only, unlike mpirun's own settings
}

Launch::~Launch() {
  std::error_code error;
  if (!folder.empty())
    std::filesystem::remove_all(folder, error);
  sigaction(SIGINT, &oldInt, nullptr);
  sigaction(SIGTERM, &oldTerm, nullptr);
  sigaction(SIGHUP, &oldHup, nullptr);
}

Ending Launch::execute(const std::vector<std::string> &words) {
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0)
    return {1, false};
  std::signal(SIGCHLD, SIG_DFL); // the parent may have ignored it
  sigset_t ended, before;        // waitFor waits for `ended`
  sigemptyset(&ended);
  sigaddset(&ended, SIGCHLD);
  sigprocmask(SIG_BLOCK, &ended, &before);
  const pid_t parent = getpid();
  pid_t pid = fork();
  if (pid == 0) {
    becomeChild(parent, before, SIGTERM);
    std::signal(SIGINT, SIG_DFL);
    std::signal(SIGTERM, SIG_DFL);
    replaceBy(words);
    int error = errno;
    (void)!write(report[1], &error, sizeof(error));
    _exit(127);
  }
  close(report[1]);
  int error = 0;
  bool started = pid > 0 && read(report[0], &error, sizeof(error)) != sizeof(error);
  close(report[0]);
  int status = 0;
  child = started ? pid : 0;
  if (started && asked) // received before the child existed
    kill(pid, SIGTERM);
  if (started)
    status = waitFor(pid, words[0] == "mpirun", timeout);
  else if (pid > 0)
    waitpid(pid, &status, 0);
  child = 0;
  sigprocmask(SIG_SETMASK, &before, nullptr);
  if (!started) {
    std::cerr << "error: cannot start '" << words[0] << "': " << std::strerror(pid < 0 ? errno : error) << std::endl;
    return {1, false};
  }
  int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  // Ranks that were told to stop, by whomever, have the code of the signal, too.
  if (std::getenv(runtime::tellsFailures) && (code == runtime::gaveUp || code == runtime::failedAlone))
    return {1, false, code == runtime::gaveUp && !asked};
  return {code, !asked && code >= 128 && !isStopSignal(code - 128)};
}
