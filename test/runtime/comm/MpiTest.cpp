// Processes as ranks, under mpirun, so that a rank can be lost.
#include "test/runtime/comm/Processes.h"

using namespace divisi::runtime;
using namespace divisi::test;

namespace {
class MpiTest : public ProcessTest {
protected:
  void SetUp() override {
    if (std::system("command -v mpirun >/dev/null 2>&1") != 0)
      GTEST_SKIP() << "mpirun is missing: install openmpi-bin";
    ProcessTest::SetUp();
  }
  pid_t start(int ranks, const std::string &arguments) {
    std::vector<std::string> words = {"mpirun"};
    if (geteuid() == 0)
      words.push_back("--allow-run-as-root");
    return spawn(words, concat("--oversubscribe --bind-to none -n ", ranks, " " RUNTIME_FAKE_RANKS " ", arguments),
                 {{"TMPDIR", folder.path.string()}}); // otherwise two mpiruns that end disturb each other
  }
  std::string output() { return readFile(folder / "output"); }
  /// The child processes of `parent`.
  static std::vector<pid_t> childrenOf(pid_t parent) {
    std::vector<pid_t> found;
    for (const auto &entry : std::filesystem::directory_iterator("/proc")) {
      std::string stat = readFile(entry.path() / "stat");
      size_t end = stat.rfind(')');
      if (end != std::string::npos && std::atoi(stat.c_str() + end + 4) == parent)
        found.push_back(std::atoi(stat.c_str()));
    }
    return found;
  }
};

TEST_F(MpiTest, CommunicationIsWhatItIsDefinedToBe) {
  for (int ranks : {2, 4})
    EXPECT_EQ(wait(start(ranks, "--conformance"), 120), 0) << ranks << " ranks\n" << output();
}

TEST_F(MpiTest, TrainsAndSaves) {
  ASSERT_EQ(wait(start(4, data + "--epochs 2 --log @/log --save-weights @/w --checkpoint @/ck"), 60), 0) << output();
  EXPECT_EQ(linesOf(readFile(folder / "log")).size(), 20u);
  EXPECT_EQ(readFile(folder / "ck/latest"), "step-20\n");
  EXPECT_NE(readFile(folder / "w").find("table"), std::string::npos);
}

TEST_F(MpiTest, AProgramOfStagesTrains) {
  writeNpy(folder / "x3.npy", "<f4", {40, 3}, randomNumbers(120, 1));
  ASSERT_EQ(wait(start(4, "--stages --init 5 --data x=@/x3.npy --data label=@/y.npy --epochs 4 --log @/log"), 60), 0)
      << output();
  std::vector<std::string> lines = linesOf(readFile(folder / "log"));
  ASSERT_EQ(lines.size(), 20u);
  auto lossOf = [](const std::string &line) { return std::stod(line.substr(line.find("\"loss\":") + 7)); };
  EXPECT_LT(lossOf(lines.back()), 0.7 * lossOf(lines.front())) << lines.front() << lines.back();
}

/// A lost stage: a rank that waits for its transfer reports it.
TEST_F(MpiTest, ALostStageEndsTheJob) {
  writeNpy(folder / "x3.npy", "<f4", {40, 3}, randomNumbers(120, 1));
  pid_t job =
      start(4, "--stages --init 5 --data x=@/x3.npy --data label=@/y.npy --lr 0 --steps 100000000 --quiet --log @/log");
  ASSERT_TRUE(waitForSteps("log")) << output();
  std::vector<pid_t> ranks = childrenOf(job);
  ASSERT_EQ(ranks.size(), 4u);
  kill(ranks[2], SIGKILL);
  EXPECT_GT(wait(job, 5), 0) << output();
  std::string text = output();
  EXPECT_NE(text.find("error: rank "), std::string::npos) << text;
  EXPECT_NE(text.find("waited in vain for "), std::string::npos) << text;
}

TEST_F(MpiTest, AnotherNumberOfRanksIsAUsageError) {
  EXPECT_EQ(wait(start(2, data), 60), 2);
  EXPECT_NE(output().find("is for 4 devices, but was started as 2 processes"), std::string::npos) << output();
}

/// The others only notice the signal that mpirun sends them; one of them reports where it waited.
TEST_F(MpiTest, ALostRankEndsTheJob) {
  pid_t job = start(4, data + "--steps 100000000 --quiet --log @/log");
  ASSERT_TRUE(waitForSteps("log")) << output();
  std::vector<pid_t> ranks = childrenOf(job);
  ASSERT_EQ(ranks.size(), 4u);
  kill(ranks[1], SIGKILL);
  EXPECT_GT(wait(job, 5), 0) << output();
  std::string text = output();
  EXPECT_NE(text.find("error: rank "), std::string::npos) << text;
  EXPECT_NE(text.find(": step "), std::string::npos) << text;
  EXPECT_NE(text.find("waited in vain for "), std::string::npos) << text;
}

/// A signal to stop: all ranks end after the same step, with a checkpoint.
TEST_F(MpiTest, ASignalStopsAfterACheckpoint) {
  pid_t job = start(4, data + "--steps 100000000 --quiet --log @/log --checkpoint @/ck --every 100000000");
  ASSERT_TRUE(waitForSteps("log")) << output();
  kill(job, SIGUSR1); // forwarded by mpirun
  EXPECT_EQ(wait(job, 30), 128 + SIGTERM) << output();
  EXPECT_NE(output().find("stopped by a signal after step "), std::string::npos) << output();
  EXPECT_TRUE(readFile(folder / "ck/latest").starts_with("step-")) << output();
}
} // namespace
