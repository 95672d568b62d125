//===- RunFixture.h - runs of programs in a folder of their own -*- C++ -*-===//
#ifndef DIVISI_TEST_RUNTIME_RUNFIXTURE_H
#define DIVISI_TEST_RUNTIME_RUNFIXTURE_H

#include "runtime/core/Json.h"
#include "test/runtime/Util.h"

#include <functional>
#include <sstream>

namespace divisi::test {

/// Captures a program's output and files.
class RunFixture : public testing::Test {
protected:
  /// The arguments of a command line; `@` stands for the test's folder.
  std::vector<std::string> wordsOf(const std::string &arguments) const {
    std::vector<std::string> words = {"line"};
    std::istringstream stream(arguments);
    for (std::string word; stream >> word; words.push_back(word))
      for (size_t at; (at = word.find('@')) != std::string::npos;)
        word.replace(at, 1, folder.path.string());
    return words;
  }
  /// The result of `start` with these arguments; its output is in `out` and `error`.
  int captured(const std::vector<std::string> &words, const std::function<int(int, const char **)> &start) {
    std::vector<const char *> argv;
    for (const std::string &word : words)
      argv.push_back(word.c_str());
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    int code = start(static_cast<int>(argv.size()), argv.data());
    out = testing::internal::GetCapturedStdout();
    error = testing::internal::GetCapturedStderr();
    return code;
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

#endif // DIVISI_TEST_RUNTIME_RUNFIXTURE_H
