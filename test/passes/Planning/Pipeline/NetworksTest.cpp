// The partitioner on networks like those in PipeDream's paper, and its running time.
#include "Networks.h"
#include "passes/Planning/Pipeline/PipeDream.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>

using namespace divisi::planning;
using namespace divisi::planning::test;

namespace {

constexpr double tenGigabit = 1.25e9; // bytes/s

/// Prints the plan's shape and the time of the search.
PipeDreamPlan planOf(const char *name, const LayerProfile &profile, const std::vector<PipeLevel> &levels) {
  auto begin = std::chrono::steady_clock::now();
  PipeDreamPlan plan = planPipeDream(profile, levels);
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::string shape;
  for (const PipeDreamPlan::Stage &stage : plan.stages)
    if (shape.size() < 60)
      shape += (shape.empty() ? "" : "-") + std::to_string(stage.replicas);
  std::printf("%-34s %6zu layers %6lld cuts  %s  speedup %.2f  %.3f s\n", name, profile.layers.size(),
              static_cast<long long>(plan.cuts), shape.c_str(), plan.speedup, seconds);
  return plan;
}

double parameterBytes(const LayerProfile &profile, const std::vector<int> &layers) {
  double bytes = 0;
  for (int layer : layers)
    bytes += profile.layers[layer].parameterBytes;
  return bytes;
}

/// Convolutions are replicated, most weights are on single devices. PipeDream's paper has 2-1-1, 7-1, 9-5-1-1.
TEST(Networks, Vgg16HasReplicatedFrontAndSingleTail) {
  LayerProfile profile = vgg16(/*flops=*/5e12, /*batch=*/32);
  std::vector<int> all(profile.layers.size());
  double weights = 0;
  for (size_t i = 0; i < all.size(); ++i)
    weights += profile.layers[all[i] = static_cast<int>(i)].parameterBytes;
  EXPECT_EQ(weights, 138357544 * 4.0); // the paper's 138 M parameters
  for (int64_t machines : {4, 8, 16}) {
    SCOPED_TRACE(machines);
    PipeDreamPlan plan = planOf(("VGG16 on " + std::to_string(machines)).c_str(), profile, {{machines, tenGigabit}});
    ASSERT_GE(plan.stages.size(), 2u);
    EXPECT_GT(plan.stages[0].replicas, 1);
    double single = 0;
    for (const PipeDreamPlan::Stage &stage : plan.stages) {
      EXPECT_LE(stage.replicas, plan.stages[0].replicas);
      if (stage.replicas == 1)
        single += parameterBytes(profile, stage.layers);
    }
    EXPECT_EQ(plan.stages.back().replicas, 1);
    EXPECT_GT(single, 0.8 * weights);
    EXPECT_GT(plan.speedup, 0.6 * static_cast<double>(machines));
  }
}

TEST(Networks, FewWeightsAndFastLinksAreDataParallel) {
  for (int64_t machines : {4, 8, 16}) {
    for (bool residual : {true, false}) {
      LayerProfile profile = residual ? resnet50(5e12, 32) : inception(5e12, 32, 120);
      PipeDreamPlan plan = planOf(((residual ? "ResNet-50 on " : "Inception on ") + std::to_string(machines)).c_str(),
                                  profile, {{machines, 12.5e9}});
      ASSERT_EQ(plan.stages.size(), 1u);
      EXPECT_EQ(plan.stages[0].replicas, machines);
      EXPECT_NEAR(plan.speedup, static_cast<double>(machines), 1e-9);
    }
  }
}

/// Machines of eight devices: the stages that synchronise most are inside one of them.
TEST(Networks, Hierarchy) {
  LayerProfile profile = vgg16(15e12, 64);
  PipeDreamPlan two = planOf("VGG16 on 2 x 8", profile, {{8, 120e9}, {2, tenGigabit}});
  for (const PipeDreamPlan::Stage &stage : two.stages) {
    ASSERT_EQ(stage.perLevel.size(), 2u);
    EXPECT_EQ(stage.perLevel[1], 1);
  }
  EXPECT_GT(two.speedup, 8);
  PipeDreamPlan equal = planOf("ResNet-50 on 4 x 8, fast", resnet50(5e12, 32), {{8, 120e9}, {4, 50e9}});
  EXPECT_EQ(equal.stages.size(), 1u);
  EXPECT_EQ(equal.stages[0].perLevel, (std::vector<int64_t>{8, 4}));
  planOf("Inception on 2 x 8, slow", inception(5e12, 32, 250), {{8, 12e9}, {2, tenGigabit / 10}});
}

LayerProfile chain(int count, uint64_t seed) {
  Random random(seed);
  LayerProfile profile;
  for (int i = 0; i < count; ++i)
    profile.layers.push_back({"l" + std::to_string(i), random.upTo(2), random.upTo(4), random.upTo(1e6),
                              random.upTo(1e7), i ? std::vector<int>{i - 1} : std::vector<int>{}});
  return profile;
}

TEST(Networks, Scale) {
  planOf("chain on 64", chain(200, 1), {{64, tenGigabit}});
  planOf("chain on 64, fast", chain(200, 2), {{64, 100e9}});
  planOf("chain on 8 x 8", chain(200, 1), {{8, 12e9}, {8, tenGigabit}});
  planOf("chain on 64 x 16", chain(200, 1), {{64, 12e9}, {16, tenGigabit}});
  planOf("long chain on 256", chain(1000, 3), {{256, tenGigabit}});
  LayerProfile branches; // four parallel chains of eight that nothing joins
  Random random(5);
  for (int i = 0; i < 32; ++i)
    branches.layers.push_back({"l" + std::to_string(i), random.upTo(2), random.upTo(4), random.upTo(1e6),
                               random.upTo(1e8), i < 4 ? std::vector<int>{} : std::vector<int>{i - 4}});
  for (int64_t machines : {4, 16})
    planOf(("four chains on " + std::to_string(machines)).c_str(), branches, {{machines, tenGigabit}});
  for (double bandwidth : {0.02e9, 0.1e9, 0.3e9, tenGigabit, 12.5e9}) {
    LayerProfile profile = inception(5e12, 32, 250);
    ASSERT_EQ(profile.layers.size(), 250u);
    planOf(("Inception on 16, " + std::to_string(bandwidth / 1e9) + " GB/s").c_str(), profile, {{16, bandwidth}});
    for (LayerProfile::Layer &layer : profile.layers)
      layer.parameterBytes *= 100;
    planOf("  with 100 times the weights", profile, {{16, bandwidth}});
  }
}

TEST(Networks, HundredThousandLayers) {
  PipeDreamPlan plan = planOf("chain on 16", chain(100000, 4), {{16, tenGigabit}});
  size_t layers = 0;
  for (const PipeDreamPlan::Stage &stage : plan.stages)
    layers += stage.layers.size();
  EXPECT_EQ(layers, 100000u);
  planOf("chain on 8 x 2", chain(100000, 4), {{8, tenGigabit}, {2, tenGigabit}});
}

/// Checks that the stages have every layer once, and no layer before an input of it.
void checkStages(const LayerProfile &profile, const PipeDreamPlan &plan) {
  std::vector<int> stageOf(profile.layers.size(), -1);
  for (int i = 0; i < static_cast<int>(plan.stages.size()); ++i)
    for (int layer : plan.stages[i].layers) {
      ASSERT_EQ(stageOf[layer], -1);
      stageOf[layer] = i;
    }
  for (size_t i = 0; i < stageOf.size(); ++i) {
    ASSERT_GE(stageOf[i], 0);
    for (int input : profile.layers[i].inputs)
      ASSERT_LE(stageOf[input], stageOf[i]);
  }
}

/// More cuts than can be counted: 2^40 and 2.5e9.
TEST(Networks, ManyBranches) {
  LayerProfile profile{{{"source", 1, 1, 1, 1, {}}}};
  for (int i = 0; i < 40; ++i)
    profile.layers.push_back({"b" + std::to_string(i), 1, 1, 1, 1, {0}});
  for (PipeCost cost : {PipeCost::paper, PipeCost::code}) {
    PipeDreamPlan plan = planPipeDream(profile, PipeLevel{4, 1e9}, cost);
    checkStages(profile, plan);
    EXPECT_GE(plan.boundMs, 82 / 4.0);
    EXPECT_LE(plan.slowestMs, 22); // 41 equal layers on 4 devices: 11 on one of them
  }

  // Two parallel chains of 50,000 layers.
  LayerProfile two;
  for (int i = 0; i < 100000; ++i)
    two.layers.push_back({"l" + std::to_string(i), 1, 1, 1, 1, i < 2 ? std::vector<int>{} : std::vector<int>{i - 2}});
  PipeDreamPlan plan = planPipeDream(two, PipeLevel{4, 1e9}, PipeCost::code);
  checkStages(two, plan);
  EXPECT_NEAR(plan.slowestMs, 50000, 2);
}

} // namespace
