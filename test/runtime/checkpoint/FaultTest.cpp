// Saving checkpoints while each call on files fails in turn, in each way: the previous checkpoint must stay usable. And who writes them.
#include "runtime/checkpoint/CheckpointSaver.h"
#include "runtime/main/RunProgram.h"
#include "test/runtime/RunFixture.h"
#include "test/runtime/checkpoint/FaultyFiles.h"
#include "test/runtime/checkpoint/SavedState.h"

#include <chrono>
#include <csignal>
#include <numeric>
#include <thread>

using namespace divisi::runtime;
using namespace divisi::test;

namespace {
using Fault = FaultyFiles::Fault;

class SavedCheckpoints : public RunFixture, protected SavedState {
protected:
  Status save(int64_t step) {
    fill(static_cast<unsigned>(step));
    return saveCheckpoint(*CheckpointFolder::open(folder / "ck"), manifest, arena, {step, {0, step}, 1, true, 99});
  }
  std::vector<std::string> names() { return namesIn(folder / "ck"); }
};
class FaultTest : public SavedCheckpoints, public testing::WithParamInterface<Fault> {};

/// Older checkpoints replace damaged ones, but not those that the system does not let a program read.
TEST_F(SavedCheckpoints, WhatCannotBeReadIsNotPassedOver) {
  ASSERT_TRUE(succeeded(save(9)));
  ASSERT_TRUE(succeeded(save(10)));
  int64_t failures = 0;
  bool reached = true;
  for (int64_t at = 0; reached; ++at) {
    std::string name, where;
    std::vector<std::string> warnings;
    auto warn = [&](const std::string &line) { warnings.push_back(line); };
    {
      FaultyFiles faulty(Fault::Error, at);
      Result<CheckpointFolder> checkpoints = CheckpointFolder::open(folder / "ck");
      auto point = checkpoints.ok() ? checkpoints->restore(manifest, arena, name, warn) : checkpoints.status();
      reached = faulty.hit();
      where = concat("call ", at, " (", faulty.name(), ")");
      failures += !point.ok();
      EXPECT_EQ(name, point.ok() ? "step-10" : "") << where;
    }
    EXPECT_EQ(warnings, std::vector<std::string>()) << where;
  }
  EXPECT_GE(failures, 2); // manifest and contents
}

/// A file that one thread began is completed by the one that waits for it, wherever the first one stopped.
TEST_F(SavedCheckpoints, WhoWaitsWritesTheRest) {
  manifest.state.resize(1);
  State &state = manifest.state.front();
  state.shape = {3 << 20}, state.bytes = 12 << 20, state.offset = 0;
  Result<Arena> large = Arena::create(state.bytes);
  ASSERT_TRUE(succeeded(large));
  auto *numbers = reinterpret_cast<int32_t *>(large->at(state));
  CheckpointFolder checkpoints = *CheckpointFolder::open(folder / "ck");
  for (int64_t step = 1; step <= 12; ++step) {
    std::iota(numbers, numbers + (3 << 20), static_cast<int32_t>(step));
    {
      CheckpointSaver saver(checkpoints, manifest, *large);
      ASSERT_TRUE(succeeded(saver.begin({step, {1, 0}, 1, true, 99})));
      std::this_thread::sleep_for(std::chrono::milliseconds(step));
      ASSERT_TRUE(succeeded(saver.finish()));
      EXPECT_EQ(saver.saved(), step);
    }
    std::fill(numbers, numbers + (3 << 20), 0);
    std::string name;
    auto point = checkpoints.restore(manifest, *large, name, [](const std::string &line) { ADD_FAILURE() << line; });
    ASSERT_TRUE(succeeded(point));
    EXPECT_EQ(name, concat("step-", step));
    for (int32_t i = 0; i < 3 << 20; ++i)
      ASSERT_EQ(numbers[i], i + step);
  }
}

TEST_P(FaultTest, TheCheckpointBeforeIsUsable) {
  int64_t points = 0, failures = 0;
  for (bool reached = true; reached; ++points) {
    std::filesystem::remove_all(folder / "ck");
    ASSERT_TRUE(succeeded(save(9)));
    ASSERT_TRUE(succeeded(save(10)));
    Status status;
    std::string where;
    {
      fill(20);
      CheckpointFolder checkpoints = *CheckpointFolder::open(folder / "ck");
      FaultyFiles faulty(GetParam(), points);
      status = saveCheckpoint(checkpoints, manifest, arena, {20, {0, 20}, 1, true, 99});
      reached = faulty.hit();
      where = concat(nameOf(GetParam()), " at call ", points, " (", faulty.name(), "): ", status.message());
    }
    failures += !status.ok();
    std::string name;
    std::vector<std::string> warnings;
    fill(99);
    Result<TrainingPoint> point = CheckpointFolder::open(folder / "ck")
                                      ->restore(manifest, arena, name, [&](const std::string &line) {
                                        warnings.push_back(line);
                                      });
    ASSERT_TRUE(succeeded(point)) << where;
    // No incomplete checkpoint has a final name; after a success there is one.
    ASSERT_TRUE(name == "step-20" || (name == "step-10" && !status.ok())) << name << " after " << where;
    ASSERT_EQ(warnings, std::vector<std::string>()) << where;
    ASSERT_EQ(point->step, name == "step-20" ? 20 : 10) << where;
    std::string restored = stateBytes();
    fill(static_cast<unsigned>(point->step));
    ASSERT_EQ(restored, stateBytes()) << where;
    if (!status.ok()) {
      ASSERT_NE(status.message().find(folder / "ck"), std::string::npos) << where;
    }
    // The next save works and removes leftovers.
    ASSERT_TRUE(succeeded(save(30))) << where;
    ASSERT_EQ(names(), (std::vector<std::string>{"latest", name, "step-30"})) << where;
  }
  EXPECT_GT(points, 25);
  EXPECT_GT(failures, 15);
  RecordProperty("points", static_cast<int>(points));
}

/// The same for a whole training: it reports an error and ends with 1, or there was none. A resumed training has the
/// losses of an undisturbed one.
TEST_P(FaultTest, TrainingGoesOnFromIt) {
  writeNpy(folder / "x.npy", "<f4", {40, 3}, randomNumbers(120, 1));
  writeNpy(folder / "y.npy", "<i8", {40}, std::vector<int64_t>(40, 2));
  DivisiProgram program = fakeProgram();
  auto run = [&](const std::string &flags) {
    return captured(wordsOf("--data x=@/x.npy --data label=@/y.npy --init 1 --steps 7 " + flags),
                    [&](int argc, const char **argv) { return runProgram(program, argc, argv, nullptr); });
  };
  auto losses = [&](const std::string &name) {
    std::vector<std::string> all;
    for (const Json &line : log(name))
      all.push_back(concat(line["step"], " ", line["loss"]));
    return all;
  };
  ASSERT_EQ(run("--log @/whole"), 0) << error;
  int64_t step = GetParam() == Fault::Error ? 3 : 11; // there are hundreds of calls
  for (int64_t at = 0;; at += step) {
    std::filesystem::remove_all(folder / "ck");
    std::filesystem::remove(folder / "log");
    int code = 0;
    bool reached = false;
    std::string where;
    auto words = wordsOf("--data x=@/x.npy --data label=@/y.npy --init 1 --steps 7 --checkpoint @/ck --every 3 --log @/log");
    code = captured(words, [&](int argc, const char **argv) {
      FaultyFiles faulty(GetParam(), at);
      int ended = runProgram(program, argc, argv, nullptr);
      reached = faulty.hit();
      where = concat(nameOf(GetParam()), " at call ", at, " (", faulty.name(), ")");
      return ended;
    });
    if (!reached)
      break;
    ASSERT_TRUE(code == 0 || code == 1 || code == 2) << where << ": " << code;
    ASSERT_EQ(code == 0, error.empty()) << where << ": " << error;
    ASSERT_EQ(run("--checkpoint @/ck --every 3 --resume --log @/log"), 0) << where << ": " << error;
    ASSERT_EQ(error, "") << where;
    ASSERT_EQ(losses("log"), losses("whole")) << where;
  }
}

INSTANTIATE_TEST_SUITE_P(Files, FaultTest,
                         testing::Values(Fault::Error, Fault::Full, Fault::Kill, Fault::TornKill, Fault::PowerLoss,
                                         Fault::Reordered),
                         [](const auto &info) {
                           std::string name = nameOf(info.param);
                           std::replace(name.begin(), name.end(), ' ', '_');
                           return name;
                         });
} // namespace
