// Runs of a whole program as a process of its own: tests that kill it or need a terminal.
#include "runtime/checkpoint/Safetensors.h"
#include "test/runtime/Util.h"

#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>

using namespace divisi::runtime;
using namespace divisi::test;

namespace {
class ProcessTest : public testing::Test {
protected:
  ProcessTest() {
    writeNpy(folder / "x.npy", "<f4", {40, 3}, randomNumbers(120, 1));
    writeNpy(folder / "y.npy", "<i8", {40}, std::vector<int64_t>(40, 2));
  }
  std::vector<std::string> command(const std::string &arguments) {
    std::vector<std::string> words = {
        RUNTIME_FAKE, "--init", "1", "--data", "x=" + (folder / "x.npy"), "--data", "label=" + (folder / "y.npy")};
    std::istringstream stream(arguments);
    for (std::string word; stream >> word;)
      words.push_back(word);
    return words;
  }
  [[noreturn]] static void become(const std::vector<std::string> &words) {
    std::vector<char *> argv;
    for (const std::string &word : words)
      argv.push_back(const_cast<char *>(word.c_str()));
    argv.push_back(nullptr);
    execv(argv[0], argv.data());
    _exit(127);
  }
  pid_t start(const std::string &arguments) {
    auto words = command(arguments);
    pid_t pid = fork();
    if (pid == 0) {
      int file = ::open((folder / "output").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0666);
      dup2(file, STDOUT_FILENO);
      dup2(file, STDERR_FILENO);
      become(words);
    }
    return pid;
  }
  static int wait(pid_t pid) {
    int status = 0;
    waitpid(pid, &status, 0);
    return status;
  }
  /// "step loss" of each line.
  std::vector<std::string> losses(const std::string &name) {
    std::vector<std::string> all;
    for (const std::string &line : linesOf(readFile(folder / name)))
      all.push_back(line.substr(0, line.find(",\"samples_per_s\"")));
    return all;
  }
  TemporaryFolder folder;
};

/// A training that is killed many times, at any moment, and resumed gives the same results as an uninterrupted one.
TEST_F(ProcessTest, KillingItChangesNothing) {
  ASSERT_EQ(wait(start("--steps 240 --log " + (folder / "whole"))), 0);
  std::string flags = concat("--steps 240 --every 2 --resume --checkpoint ", folder / "ck", " --log ", folder / "part");
  std::mt19937 random(5);
  int killed = 0;
  for (int i = 0; i < 15; ++i) {
    std::string before = readFile(folder / "ck/latest");
    if (before == "step-240\n")
      break;
    pid_t pid = start(flags);
    // A random time after a new checkpoint: mostly while the next one is written.
    for (int tries = 0; tries < 20000 && readFile(folder / "ck/latest") == before; ++tries)
      usleep(1000);
    usleep(random() % 15000);
    kill(pid, SIGKILL);
    killed += WIFSIGNALED(wait(pid));
  }
  EXPECT_GT(killed, 3);
  ASSERT_EQ(wait(start(flags)), 0) << readFile(folder / "output");
  EXPECT_EQ(losses("part"), losses("whole"));
  std::string output = readFile(folder / "output");
  EXPECT_EQ(output.find("passing over"), std::string::npos) << output;
  EXPECT_NE(output.find("resumed from"), std::string::npos);
}

/// If output is lost, the exit code reports it; the training itself succeeds.
TEST_F(ProcessTest, AStandardOutputThatIsFullOrClosed) {
  for (const char *how : {">/dev/full", ">&-", "<&- >&- 2>&-"}) {
    std::string line;
    for (const std::string &word : command("--steps 3 --log " + (folder / "log") + " --save-weights " + (folder / "w")))
      line += "'" + word + "' ";
    std::filesystem::remove(folder / "log");
    int status = std::system((line + how + " 2>'" + (folder / "errors") + "'").c_str());
    ASSERT_TRUE(WIFEXITED(status)) << how;
    EXPECT_EQ(WEXITSTATUS(status), 1) << how;
    EXPECT_EQ(losses("log").size(), 3u) << readFile(folder / "log");
    EXPECT_TRUE(succeeded(SafetensorsFile::open(folder / "w"))) << how; // nothing is printed in between
    EXPECT_EQ(readFile(folder / "errors"), "error: cannot write to the standard output\n") << how;
    for (const char *flag : {"--help", "--info", "--describe json"}) {
      int asked = std::system((RUNTIME_FAKE + (" " + std::string(flag)) + " " + how + " 2>/dev/null").c_str());
      EXPECT_EQ(WEXITSTATUS(asked), 1) << flag << how;
    }
    EXPECT_EQ(WEXITSTATUS(std::system((line + "--quiet " + how).c_str())), 0) << how; // no output
  }
}

TEST_F(ProcessTest, AClosedTerminalMakesACheckpointUnlessItIsIgnored) {
  std::string flags = concat("--steps 100000000 --every 100000000 --checkpoint ", folder / "ck", " --log ", folder / "log");
  pid_t pid = start(flags);
  while (!std::filesystem::exists(folder / "log") || std::filesystem::file_size(folder / "log") == 0)
    usleep(1000);
  kill(pid, SIGHUP);
  int status = wait(pid);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGHUP) << readFile(folder / "output");
  EXPECT_TRUE(std::filesystem::exists(folder / "ck/latest"));
  signal(SIGHUP, SIG_IGN); // as nohup does
  std::filesystem::remove(folder / "log");
  pid = start("--steps 20000 --log " + (folder / "log"));
  signal(SIGHUP, SIG_DFL);
  while (!std::filesystem::exists(folder / "log") || std::filesystem::file_size(folder / "log") == 0)
    usleep(1000);
  kill(pid, SIGHUP);
  EXPECT_EQ(wait(pid), 0);
}

TEST_F(ProcessTest, OneProgramForAFolderOfCheckpoints) {
  std::string flags = concat("--steps 100000000 --every 10 --checkpoint ", folder / "ck");
  pid_t pid = start(flags);
  while (!std::filesystem::exists(folder / "ck/latest"))
    usleep(1000);
  std::filesystem::remove(folder / "output");
  int status = wait(start(flags + " --resume"));
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1);
  std::string said = readFile(folder / "output");
  EXPECT_EQ(linesOf(said).size(), 1u) << said;
  EXPECT_NE(said.find("error: --checkpoint " + (folder / "ck") + ": another program keeps its checkpoints here"),
            std::string::npos)
      << said;
  kill(pid, SIGKILL);
  wait(pid);
  EXPECT_EQ(wait(start(concat("--steps 1 --resume --checkpoint ", folder / "ck"))), 0) << readFile(folder / "output");
}

TEST_F(ProcessTest, NumbersOfTheCommandLine) {
  ASSERT_EQ(wait(start("--epochs 9223372036854775807 --steps 3 --log " + (folder / "three"))), 0)
      << readFile(folder / "output");
  EXPECT_EQ(losses("three").size(), 3u);
  for (const char *wrong : {"--epochs -1", "--epochs 0", "--steps 99999999999999999999", "--seed -1", "--lr nan",
                            "--lr-gamma nan", "--warmup-steps -1"}) {
    int status = wait(start(wrong));
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 2) << wrong;
    EXPECT_NE(readFile(folder / "output").find("error: --"), std::string::npos) << wrong;
  }
}

TEST_F(ProcessTest, AFileThatBecomesShorterIsExplained) {
  // Larger than a page, so that truncation removes its end.
  writeNpy(folder / "x.npy", "<f4", {40000, 3}, randomNumbers(120000, 1));
  writeNpy(folder / "y.npy", "<i8", {40000}, std::vector<int64_t>(40000, 2));
  pid_t pid = start(concat("--epochs 100000 --log ", folder / "log"));
  while (!std::filesystem::exists(folder / "log") || std::filesystem::file_size(folder / "log") == 0)
    usleep(1000);
  std::filesystem::resize_file(folder / "x.npy", 100);
  int status = wait(pid);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_NE(readFile(folder / "output").find("error: a data or weights file became shorter"), std::string::npos);
}

TEST_F(ProcessTest, ATerminalGetsABarThatFits) {
  for (unsigned short width : {50, 120}) {
    winsize size = {24, width, 0, 0};
    int terminal = -1;
    auto words = command("--steps 3000000");
    pid_t pid = forkpty(&terminal, nullptr, nullptr, &size);
    ASSERT_GE(pid, 0);
    if (pid == 0)
      become(words);
    std::string text;
    char buffer[4096];
    auto redraws = [&] { return std::count(text.begin(), text.end(), '\r'); };
    pollfd ready = {terminal, POLLIN, 0};
    while (redraws() < 6 && poll(&ready, 1, 10000) > 0) {
      ssize_t n = read(terminal, buffer, sizeof(buffer));
      if (n <= 0)
        break;
      text.append(buffer, static_cast<size_t>(n));
    }
    kill(pid, SIGKILL);
    wait(pid);
    close(terminal);
    EXPECT_GE(redraws(), 6);
    size_t bars = 0;
    for (size_t at = text.find('\r'), end;
         at != std::string::npos && (end = text.find("\x1b[K", at)) != std::string::npos;
         at = text.find('\r', at + 1)) {
      std::string line = text.substr(at + 1, end - at - 1);
      if (line.find('\r') != std::string::npos)
        continue;
      EXPECT_LT(line.size(), width) << line;
      bars += line.find("loss ") != std::string::npos;
      if (width == 120) {
        EXPECT_NE(line.find("  ETA "), std::string::npos) << line;
        EXPECT_TRUE(line.starts_with("[")) << line;
      }
    }
    EXPECT_GE(bars, 1u) << text;
  }
}
} // namespace
