#include "tools/divisi/Processes.h"

#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/prctl.h>
#include <unistd.h>

void divisi::tools::becomeChild(pid_t parent, const sigset_t &blocked, int deathSignal) {
  sigprocmask(SIG_SETMASK, &blocked, nullptr);
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, deathSignal);
  if (getppid() != parent) // it ended before
    _exit(128 + SIGTERM);
  int none = open("/dev/null", O_RDONLY | O_CLOEXEC);
  dup2(none, STDIN_FILENO);
}

void divisi::tools::replaceBy(const std::vector<std::string> &words) {
  std::vector<char *> argv;
  for (const std::string &word : words)
    argv.push_back(const_cast<char *>(word.c_str()));
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
}

namespace {
/// Of /proc/PID/stat: PID (NAME) STATE PARENT ...; the name may contain anything.
struct Stat {
  char state = 0;
  pid_t parent = 0;
};
std::optional<Stat> statOf(const std::filesystem::path &folder) {
  std::ifstream file(folder / "stat");
  std::string line;
  std::getline(file, line);
  std::istringstream fields(line.substr(std::min(line.size(), line.rfind(')') + 1)));
  Stat stat;
  return fields >> stat.state >> stat.parent ? std::optional(stat) : std::nullopt;
}
} // namespace

std::optional<std::vector<divisi::tools::Child>> divisi::tools::livingChildren(pid_t parent) {
  std::vector<Child> found;
  std::error_code error;
  for (std::filesystem::directory_iterator it("/proc", error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos)
      continue;
    std::optional<Stat> stat = statOf(it->path());
    if (stat && stat->parent == parent && stat->state != 'Z' && stat->state != 'X')
      found.push_back({static_cast<pid_t>(std::stoll(name)), stat->state == 'T'});
  }
  return error ? std::nullopt : std::optional(found);
}

bool divisi::tools::isStopped(pid_t pid) {
  std::optional<Stat> stat = statOf("/proc/" + std::to_string(pid));
  return stat && stat->state == 'T';
}
