#include "passes/Planning/Pipeline/StageMesh.h"
#include "dialects/Dist/StageAxes.h"
#include "passes/Planning/Search/Planner.h"
#include "passes/Planning/Pipeline/StageFile.h"

#include <gtest/gtest.h>
#include <random>

using namespace divisi;
using namespace divisi::planning;

namespace {

std::string textOf(std::vector<int64_t> replicas) {
  StageMesh made = meshOfStages(replicas);
  return nameOf(made.mesh) + " " + made.axes;
}

TEST(StageMesh, Examples) {
  EXPECT_EQ(textOf({9, 5, 1, 1}), "stage=4,data=9,data2=5 data,data2,none,none"); // PipeDream's VGG-16 on 16 machines
  EXPECT_EQ(textOf({7, 1}), "stage=2,data=7 data,none");
  EXPECT_EQ(textOf({4, 2, 1}), "stage=3,data=2,data2=2 data+data2,data,none");
  EXPECT_EQ(textOf({2, 2}), "stage=2,data=2 ");
  EXPECT_EQ(textOf({1, 1, 1}), "stage=3 ");
  EXPECT_EQ(textOf({4}), "data=4 ");
}

/// Every stage has as many devices as was asked for, whatever the numbers.
TEST(StageMesh, DevicesOfStages) {
  std::mt19937 random(1);
  for (int round = 0; round < 500; ++round) {
    std::vector<int64_t> replicas(2 + random() % 6);
    for (int64_t &count : replicas)
      count = 1 + (int64_t)(random() % 64);
    StageMesh made = meshOfStages(replicas);
    auto axes = made.axes.empty() ? dist::StageAxes() : dist::StageAxes::parse(made.axes);
    ASSERT_EQ(axes.invalid((int64_t)replicas.size(), made.mesh), "") << made.axes;
    for (size_t stage = 0; stage < replicas.size(); ++stage)
      EXPECT_EQ(axes.devices((int64_t)stage, made.mesh), replicas[stage]) << made.axes;
  }
}

std::string errorOf(const char *text) {
  auto found = FoundStages::parse(text, "s.json");
  return found ? "" : llvm::toString(found.takeError());
}

TEST(StageFile, Reads) {
  auto found = FoundStages::parse(R"({"stages": [{"layers": ["b", "a"], "positions": [1, 0], "replicas": 3, "ms": 1},
                                     {"layers": ["c"], "positions": [2], "replicas": 1}]})", "s.json");
  ASSERT_TRUE(!!found);
  EXPECT_EQ(found->first, (std::vector<std::string>{"a", "c"}));
  EXPECT_EQ(found->replicas, (std::vector<int64_t>{3, 1}));
}

/// Two branches that are cut at different depths.
TEST(StageFile, Branches) {
  auto found = FoundStages::parse(R"({"stages": [
      {"layers": ["a", "c"], "positions": [0, 2], "begins_at": ["a", "c"], "replicas": 1},
      {"layers": ["b", "d"], "positions": [1, 3], "begins_at": ["b", "d"], "replicas": 2},
      {"layers": ["e"], "positions": [4], "begins_at": ["e"], "replicas": 1}]})", "s.json");
  ASSERT_TRUE(!!found);
  EXPECT_EQ(found->first, (std::vector<std::string>{"a", "b + d", "e"}));
}

TEST(StageFile, Errors) {
  for (const char *text : {"", "[]", "{}", R"({"stages": []})", R"({"stages": [1]})", R"({"stages": [{"layers": []}]})",
                           R"({"stages": [{"layers": ["a"], "replicas": 1}]})",
                           R"({"stages": [{"layers": ["a"], "positions": [0, 1], "replicas": 1}]})",
                           R"({"stages": [{"layers": ["a"], "positions": [-1], "replicas": 1}]})",
                           R"({"stages": [{"layers": [7], "positions": [0], "replicas": 1}]})",
                           R"({"stages": [{"layers": ["a"], "positions": [0], "replicas": 0}]})",
                           R"({"stages": [{"layers": ["a"], "positions": [0], "replicas": 99999}]})"})
    EXPECT_NE(errorOf(text).find("s.json: "), std::string::npos) << text;
  EXPECT_NE(errorOf(std::string(100000, '[').c_str()).find("nested too deep"), std::string::npos);
  EXPECT_NE(errorOf(R"({"stages": [{"layers": ["a", "c"], "positions": [0, 2], "replicas": 1},
                                   {"layers": ["b"], "positions": [1], "replicas": 1}]})")
                .find("stages[1]: its layers lie between those of the stage before, without begins_at"),
            std::string::npos);
}

} // namespace
