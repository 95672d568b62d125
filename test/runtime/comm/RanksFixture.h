//===- RanksFixture.h - whole programs on threads as ranks ------*- C++ -*-===//
#ifndef DIVISI_TEST_RUNTIME_COMM_RANKSFIXTURE_H
#define DIVISI_TEST_RUNTIME_COMM_RANKSFIXTURE_H

#include "runtime/main/RunProgram.h"
#include "test/runtime/RunFixture.h"
#include "test/runtime/comm/Ranks.h"

namespace divisi::test {

/// Runs programs with x.npy and y.npy in the test's folder as training data.
class RanksFixture : public RunFixture {
protected:
  /// The exit code of rank 0. All ranks must end alike.
  int run(const DivisiProgram &program, int ranks, const std::string &arguments) {
    runtime::LocalHub hub(ranks);
    std::vector<int> codes(static_cast<size_t>(ranks));
    captured(wordsOf("--data x=@/x.npy --data label=@/y.npy " + arguments), [&](int argc, const char **argv) {
      onRanks(hub, [&](runtime::Transport &transport) {
        codes[static_cast<size_t>(transport.rank())] = runtime::runProgram(program, argc, argv, &transport);
      });
      return codes[0];
    });
    for (int code : codes)
      EXPECT_EQ(code, codes[0]) << error;
    return codes[0];
  }
};

} // namespace divisi::test

#endif // DIVISI_TEST_RUNTIME_COMM_RANKSFIXTURE_H
