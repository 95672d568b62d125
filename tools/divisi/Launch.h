#pragma once
#include <csignal>
#include <string>
#include <vector>

namespace divisi::tools {

/// How a program has ended.
struct Ending {
  int code = 0;
  bool lost = false;   // by a signal that asks nobody to stop
  bool silent = false; // because a rank was silent
};

/// Runs commands one after the other and forwards signals to them, while the object exists.
class Launch {
public:
  /// `launcher`: mpirun or srun, which commands begin with. `timeout`: seconds for which a process of mpirun may be stopped (SIGSTOP) before
  /// it is killed.
  Launch(const std::string &launcher, double timeout);
  ~Launch();
  Launch(const Launch &) = delete;
  Launch &operator=(const Launch &) = delete;

  /// Starts a command, forwards signals to it and waits for it to end.
  Ending execute(const std::vector<std::string> &words);

private:
  double timeout;
  std::string folder; // for mpirun's files while it runs, separate from other runs
  struct sigaction oldInt = {}, oldTerm = {}, oldHup = {};
};

} // namespace divisi::tools
