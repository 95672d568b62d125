// The orders of tasks, the activations that they keep, and the weights that they read.
#include "passes/Planning/Simulator/Checker.h"
#include "passes/Planning/Simulator/WeightVersions.h"
#include "test/passes/Planning/Unwrap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace divisi::planning::pipeline;
using divisi::test::unwrap;

namespace {

Schedule make(const ScheduleOptions &options) {
  std::string error;
  auto schedule = unwrap(makeSchedule(options), error);
  EXPECT_TRUE(schedule) << error;
  return schedule ? *schedule : Schedule();
}

/// "F0 B0 U0": I and W for the two gradients, a chunk other than 0 behind a dot.
std::string text(const std::vector<Task> &tasks) {
  std::string result;
  for (const Task &task : tasks)
    result += (result.empty() ? "" : " ") + std::string(1, "FBIWU"[task.kind]) + std::to_string(task.microbatch) +
              (task.chunk ? "." + std::to_string(task.chunk) : "");
  return result;
}

TEST(Schedule, Names) {
  for (const char *name : {"naive", "gpipe", "1f1b", "interleaved", "zb-h1", "pipedream", "pipedream-2bw"})
    EXPECT_EQ(nameOf(*parseScheduleKind(name)), name);
  for (const char *name : {"stashed", "vertical-sync", "latest"})
    EXPECT_EQ(nameOf(*parseStaleness(name)), name);
  EXPECT_FALSE(parseScheduleKind("1F1B"));
  EXPECT_FALSE(parseStaleness(""));
  EXPECT_EQ(scheduleKindNames(), "naive, gpipe, 1f1b, interleaved, zb-h1, pipedream, pipedream-2bw");
}

TEST(Schedule, Orders) {
  EXPECT_EQ(text(make({ScheduleKind::naive, 2, 2}).devices[0]), "F0 B0 F1 B1 U1");
  EXPECT_EQ(text(make({ScheduleKind::gpipe, 2, 3}).devices[1]), "F0 F1 F2 B0 B1 B2 U2");
  Schedule f1b1 = make({ScheduleKind::f1b1, 3, 4});
  EXPECT_EQ(text(f1b1.devices[0]), "F0 F1 F2 B0 F3 B1 B2 B3 U3");
  EXPECT_EQ(text(f1b1.devices[1]), "F0 F1 B0 F2 B1 F3 B2 B3 U3");
  EXPECT_EQ(text(f1b1.devices[2]), "F0 B0 F1 B1 F2 B2 F3 B3 U3");
  Schedule split = make({ScheduleKind::zbH1, 2, 3});
  EXPECT_EQ(text(split.devices[0]), "F0 F1 I0 W0 F2 I1 W1 I2 W2 U2");
  EXPECT_EQ(text(split.devices[1]), "F0 I0 F1 I1 W0 F2 I2 W1 W2 U2");
  EXPECT_EQ(text(make({ScheduleKind::interleaved, 2, 2, 2}).devices[1]), "F0 F1 F0.1 B0.1 F1.1 B1.1 B0 B1 U1.1 U1");
  EXPECT_EQ(text(make({ScheduleKind::pipedream, 2, 3}).devices[0]), "F0 F1 B0 U0 F2 B1 U1 B2 U2");
}

/// A stage lets as many microbatches enter as there are replicas from it on, so that each of them has one.
TEST(Schedule, ReplicasTakeMicrobatchesInTurn) {
  ScheduleOptions options{ScheduleKind::f1b1, 2, 4};
  options.replicas = {2, 1};
  EXPECT_EQ(text(make(options).devices[0]), "F0 F1 F2 B0 F3 B1 B2 B3 U3");
  EXPECT_EQ(text(make(options).devices[1]), "F0 B0 F1 B1 F2 B2 F3 B3 U3");
  EXPECT_EQ(options.lagOf(0), 2);
  options.replicas = {9, 5, 1, 1}, options.devices = 4, options.kind = ScheduleKind::pipedream;
  EXPECT_EQ(options.invalid(), "");
  EXPECT_EQ(options.lagOf(0), 15);
  EXPECT_EQ(options.lagOf(2), 1);
  options.staleness = Staleness::latest;
  EXPECT_NE(options.invalid(), "");
  options = {ScheduleKind::pipedream, 2, 4};
  options.replicas = {1, 3};
  EXPECT_NE(options.invalid().find("the last stage of pipedream has one"), std::string::npos);
  options.kind = ScheduleKind::gpipe;
  EXPECT_EQ(options.invalid(), "");
  options.replicas = {1, 5};
  EXPECT_NE(options.invalid().find("from 1 to the 4 microbatches"), std::string::npos);
  options.replicas = {1};
  EXPECT_NE(options.invalid().find("a number for each of 2 stages"), std::string::npos);
}

TEST(Schedule, Invalid) {
  auto wrong = [](const ScheduleOptions &options) {
    std::string error;
    EXPECT_FALSE(unwrap(makeSchedule(options), error));
    return error;
  };
  EXPECT_EQ(wrong({ScheduleKind::f1b1, 0, 1}), "stages: at least 1 is needed, not 0");
  EXPECT_EQ(wrong({ScheduleKind::f1b1, 1, -2}), "microbatches: at least 1 is needed, not -2");
  EXPECT_EQ(wrong({ScheduleKind::f1b1, 1, 1, 0}), "chunks: at least 1 is needed, not 0");
  EXPECT_EQ(wrong({ScheduleKind::interleaved, 4, 8, 1}),
            "schedule interleaved needs at least 2 chunks per device; with 1 it is 1f1b");
  EXPECT_EQ(wrong({ScheduleKind::interleaved, 4, 6, 2}),
            "schedule interleaved needs microbatches in multiples of the 4 devices, not 6");
  EXPECT_EQ(wrong({ScheduleKind::gpipe, 4, 6, 2}),
            "schedule gpipe has 1 chunk per device, not 2; interleaved takes more");
  EXPECT_EQ(wrong({ScheduleKind::gpipe, 4, 6, 1, Staleness::latest}),
            "schedule gpipe has no choice of staleness: 'latest' weights are for pipedream");
  EXPECT_EQ(wrong({ScheduleKind::gpipe, 65536, 1 << 30}), "stages x microbatches: more than 4000000 tasks");
}

TEST(Schedule, ActivationsHeld) {
  for (int p = 1; p <= 6; ++p)
    for (int m : {1, 2, 3, 4, 7, 12, 40}) {
      auto held = [&](ScheduleKind kind) { return activationsHeld(make({kind, p, m})).byStage; };
      for (int s = 0; s < p; ++s) {
        EXPECT_EQ(held(ScheduleKind::naive)[s], 1);
        EXPECT_EQ(held(ScheduleKind::gpipe)[s], m);
        EXPECT_EQ(held(ScheduleKind::f1b1)[s], std::min(m, p - s));
        EXPECT_EQ(held(ScheduleKind::pipedream)[s], std::min(m, p - s));
        EXPECT_EQ(held(ScheduleKind::zbH1)[s], std::min(m, p)); // p - s in flight and s delayed
      }
    }
  for (int v = 2; v <= 4; ++v) // p (1 + (p-1)/(p v)) of v chunks each
    EXPECT_EQ(activationsHeld(make({ScheduleKind::interleaved, 4, 16, v})).byDevice[0], 4 * v + 3);
}

TEST(Schedule, WeightVersionsKept) {
  for (int p = 1; p <= 6; ++p) {
    auto kept = [&](Staleness staleness) {
      return weightVersions(make({ScheduleKind::pipedream, p, 5 * p, 1, staleness})).kept;
    };
    for (int s = 0; s < p; ++s) {
      EXPECT_EQ(kept(Staleness::stashed)[s], p - s);
      EXPECT_EQ(kept(Staleness::verticalSync)[s], p);
      EXPECT_EQ(kept(Staleness::latest)[s], 1);
    }
    for (ScheduleKind kind : {ScheduleKind::naive, ScheduleKind::gpipe, ScheduleKind::f1b1, ScheduleKind::zbH1})
      EXPECT_EQ(weightVersions(make({kind, p, 2 * p})).kept, std::vector<int>(p, 1));
  }
}

/// Minibatch k reads a version with k - (p - s) + 1 updates on stage s, by the definition of 1F1B.
TEST(Schedule, WeightVersionsRead) {
  const int p = 4, m = 20;
  for (Staleness staleness : {Staleness::stashed, Staleness::verticalSync, Staleness::latest}) {
    Schedule schedule = make({ScheduleKind::pipedream, p, m, 1, staleness});
    WeightVersions versions = weightVersions(schedule);
    for (int s = 0; s < p; ++s)
      for (size_t i = 0; i < schedule.devices[s].size(); ++i) {
        auto [kind, k, chunk] = schedule.devices[s][i];
        int newest = std::max(0, k - (p - s) + 1), first = std::max(0, k - p + 1);
        int expected = staleness == Staleness::verticalSync ? first : newest;
        if (kind == Task::backward && staleness == Staleness::latest)
          expected = k;
        if (kind == Task::update)
          expected = k + 1;
        EXPECT_EQ(versions.read[s][i], expected) << describe(schedule.devices[s][i]) << " on " << s;
      }
  }
}

/// arXiv 2006.09503, section 3.1: batch t reads the weights W(t - 1), which are there when its first microbatch enters a
/// stage, and two versions are enough if a batch has as many microbatches as there are stages.
TEST(Schedule, DoubleBufferedWeights) {
  EXPECT_EQ(makeSchedule({ScheduleKind::pipedream2bw, 4, 12, 1, Staleness::stashed, {}, 4})->devices.size(), 4u);
  for (int batch : {3, 5})
    EXPECT_THAT(llvm::toString(makeSchedule({ScheduleKind::pipedream2bw, 4, 12, 1, Staleness::stashed, {}, batch}).takeError()),
                testing::HasSubstr("batches of at least as many microbatches as there are stages"));
  for (int batch : {4, 6}) {
    Schedule schedule = make({ScheduleKind::pipedream2bw, 4, 4 * batch, 1, Staleness::stashed, {}, batch});
    WeightVersions versions = weightVersions(schedule);
    for (int s = 0; s < 4; ++s) {
      int made = 0;
      for (size_t i = 0; i < schedule.devices[s].size(); ++i) {
        auto [kind, k, chunk] = schedule.devices[s][i];
        int batchNumber = k / batch, expected = kind == Task::update ? ++made : std::max(0, batchNumber - 1);
        EXPECT_EQ(versions.read[s][i], expected) << describe(schedule.devices[s][i]) << " on " << s;
        EXPECT_LE(expected, made);
        EXPECT_GE(expected, kind == Task::update ? made : made - 1);
      }
      EXPECT_EQ(made, 4);
      EXPECT_EQ(versions.kept[s], s == 3 ? 2 : 3);
    }
  }
}

} // namespace
