//===- RanksFixture.h - whole programs on threads as ranks ------*- C++ -*-===//
#ifndef DIVISI_TEST_RUNTIME_COMM_RANKSFIXTURE_H
#define DIVISI_TEST_RUNTIME_COMM_RANKSFIXTURE_H

#include "runtime/core/Json.h"
#include "runtime/main/RunProgram.h"
#include "test/runtime/Util.h"
#include "test/runtime/comm/Ranks.h"

namespace divisi::test {

/// Runs programs with x.npy and y.npy in the test's folder as training data.
class RanksFixture : public testing::Test {
protected:
  /// The exit code of rank 0; `@` in an argument stands for the test's folder. All ranks must end alike.
  int run(const DivisiProgram &program, int ranks, const std::string &arguments) {
    std::vector<std::string> words = {"line"};
    std::istringstream stream("--data x=@/x.npy --data label=@/y.npy " + arguments);
    for (std::string word; stream >> word; words.push_back(word))
      for (size_t at; (at = word.find('@')) != std::string::npos;)
        word.replace(at, 1, folder.path.string());
    std::vector<const char *> argv;
    for (const std::string &word : words)
      argv.push_back(word.c_str());
    runtime::LocalHub hub(ranks);
    std::vector<int> codes(static_cast<size_t>(ranks));
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    onRanks(hub, [&](runtime::Transport &transport) {
      codes[static_cast<size_t>(transport.rank())] =
          runtime::runProgram(program, static_cast<int>(argv.size()), argv.data(), &transport);
    });
    out = testing::internal::GetCapturedStdout();
    error = testing::internal::GetCapturedStderr();
    for (int code : codes)
      EXPECT_EQ(code, codes[0]) << error;
    return codes[0];
  }
  std::vector<runtime::Json> log(const std::string &name) {
    std::vector<runtime::Json> lines;
    for (const std::string &line : linesOf(readFile(folder / name)))
      lines.push_back(runtime::Json::parse(line));
    return lines;
  }
  void expectError(const std::string &words) {
    EXPECT_EQ(linesOf(error).size(), 1u) << error;
    EXPECT_TRUE(error.starts_with("error: ")) << error;
    EXPECT_NE(error.find(words), std::string::npos) << error;
  }

  TemporaryFolder folder;
  std::string out, error;
};

} // namespace divisi::test

#endif // DIVISI_TEST_RUNTIME_COMM_RANKSFIXTURE_H
