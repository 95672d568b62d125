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

bool divisi::tools::hasLivingChildren(pid_t parent) {
  std::error_code error;
  for (std::filesystem::directory_iterator it("/proc", error), end; !error && it != end; it.increment(error)) {
    if (it->path().filename().string().find_first_not_of("0123456789") != std::string::npos)
      continue;
    std::ifstream file(it->path() / "stat");
    std::string line;
    std::getline(file, line); // PID (NAME) STATE PARENT ...; the name may contain anything
    std::istringstream fields(line.substr(std::min(line.size(), line.rfind(')') + 1)));
    char state = 0;
    pid_t of = 0;
    if (fields >> state >> of && of == parent && state != 'Z' && state != 'X')
      return true;
  }
  return static_cast<bool>(error);
}
