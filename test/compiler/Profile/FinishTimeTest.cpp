#include "compiler/Profile/FinishTime.h"

#include <gtest/gtest.h>

using namespace divisi::compiler;
using divisi::codegen::ProgramCall;

namespace {
ProgramCall numbered(const char *kind, int64_t id, bool collective = false) {
  ProgramCall call{kind};
  call.id = id;
  call.collective = collective;
  return call;
}
const ProgramCall compute{"kernel"};
const ProgramCall send0 = numbered("send", 0), receive0 = numbered("receive", 0), await0 = numbered("await", 0);
const ProgramCall send1 = numbered("send", 1), receive1 = numbered("receive", 1), await1 = numbered("await", 1);
const ProgramCall reduce = numbered("all_reduce", 7, true), awaitReduce = numbered("await", 7);
} // namespace

TEST(FinishTime, CollectivesRunBesideComputation) {
  EXPECT_EQ(finishTime({{{&compute, 2}, {&reduce, 5}, {&compute, 3}, {&awaitReduce, 0}, {&compute, 1}}}), 8);
  EXPECT_EQ(finishTime({{{&reduce, 1}, {&compute, 3}, {&awaitReduce, 0}, {&compute, 1}}}), 4);
}

TEST(FinishTime, AMessageArrivesWhenItWasSentAndTravelled) {
  EXPECT_EQ(finishTime({{{&compute, 4}, {&send0, 3, 1}, {&compute, 1}},
                        {{&receive0, 0}, {&compute, 1}, {&await0, 0}, {&compute, 2}}}),
            10);
}

TEST(FinishTime, MicrobatchesFollowEachOther) {
  // GPipe with two stages and two microbatches: forward 2, backward 2, messages take no time. The second stage runs
  // both passes of a microbatch in one task.
  std::vector<TimedCall> first, second;
  for (int i = 0; i < 2; ++i)
    first.insert(first.end(), {{&compute, 2}, {&send0, 0, 0}});
  for (int i = 0; i < 2; ++i)
    first.insert(first.end(), {{&receive1, 0}, {&await1, 0}, {&compute, 2}});
  for (int i = 0; i < 2; ++i)
    second.insert(second.end(), {{&receive0, 0}, {&await0, 0}, {&compute, 4}, {&send1, 0, 0}});
  EXPECT_EQ(finishTime({first, second}), 12);
}

TEST(FinishTime, WhoWaitsForEverIsTold) {
  EXPECT_LT(
      finishTime({{{&receive0, 0}, {&await0, 0}, {&send1, 1, 0}}, {{&receive1, 0}, {&await1, 0}, {&send0, 1, 0}}}), 0);
}

TEST(FinishTime, AMessageThatNobodyTakesIsTold) {
  std::vector<std::vector<TimedCall>> devices = {{{&compute, 4}, {&send0, 3, 1}}, {{&compute, 1}}};
  EXPECT_LT(finishTime(devices), 0);
  EXPECT_EQ(finishTime(devices, /*runsEmpty=*/false), 8);
}
