//===- Processes.h - ranks that are processes -------------------*- C++ -*-===//
#ifndef DIVISI_TEST_RUNTIME_COMM_PROCESSES_H
#define DIVISI_TEST_RUNTIME_COMM_PROCESSES_H

#include "test/runtime/Util.h"

#include <csignal>
#include <fcntl.h>
#include <sys/wait.h>

namespace divisi::test {

/// Starts programs of FakeRanksMain.cpp, with data to train on.
class ProcessTest : public testing::Test {
protected:
  void SetUp() override {
    writeNpy(folder / "x.npy", "<f4", {40, 4}, randomNumbers(160, 1));
    writeNpy(folder / "y.npy", "<i8", {40}, std::vector<int64_t>(40, 2));
  }
  /// Starts `words` followed by `arguments`, in which `@` is the test's folder, with additional environment variables.
  /// Its output goes to a file in the folder.
  pid_t spawn(std::vector<std::string> words, const std::string &arguments,
              const std::vector<std::pair<std::string, std::string>> &environment = {}, const char *said = "output") {
    std::istringstream stream(arguments);
    for (std::string word; stream >> word; words.push_back(word))
      for (size_t at; (at = word.find('@')) != std::string::npos;)
        word.replace(at, 1, folder.path.string());
    pid_t pid = fork();
    if (pid == 0) {
      setenv("OMP_NUM_THREADS", "1", 1);
      for (const auto &[name, value] : environment)
        setenv(name.c_str(), value.c_str(), 1);
      int file = ::open((folder / said).c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
      dup2(file, STDOUT_FILENO);
      dup2(file, STDERR_FILENO);
      std::vector<char *> argv;
      for (std::string &word : words)
        argv.push_back(word.data());
      argv.push_back(nullptr);
      execvp(argv[0], argv.data());
      _exit(127);
    }
    return pid;
  }
  /// The exit code; -1 if it has not ended after this number of seconds.
  static int wait(pid_t pid, int seconds) {
    int status = 0;
    for (int i = 0; i < seconds * 100; ++i, usleep(10000))
      if (waitpid(pid, &status, WNOHANG) == pid)
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return -1;
  }
  /// Waits until the training has written lines to its log.
  bool waitForSteps(const char *name) {
    std::error_code error;
    for (int i = 0; i < 3000; ++i, usleep(10000))
      if (std::filesystem::file_size(folder / name, error) > 2000 && !error)
        return true;
    return false;
  }
  const std::string data = "--init 5 --data x=@/x.npy --data label=@/y.npy ";
  TemporaryFolder folder;
};

} // namespace divisi::test

#endif // DIVISI_TEST_RUNTIME_COMM_PROCESSES_H
