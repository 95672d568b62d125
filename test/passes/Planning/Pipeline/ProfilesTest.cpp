// The partitioner on profiles that PipeDream ships: valid stages, their cost counted anew, how far from the optimum
// they can be, and how much is searched.
#include "passes/Planning/Pipeline/PipeDream.h"
#include "test/passes/Planning/Unwrap.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

using namespace divisi::planning;
using divisi::test::unwrap;

namespace {

struct Case {
  const char *name;
  size_t layers;      // nodes of the file without inputs and unused items
  double paper, code; // the largest gap to the bound, on one level
};

std::ostream &operator<<(std::ostream &os, const Case &profile) { return os << profile.name; }

class Profiles : public testing::TestWithParam<Case> {
protected:
  LayerProfile profile = [] {
    std::string error;
    auto read = unwrap(readLayerProfile(std::string(PIPEDREAM_PROFILES) + "/" + GetParam().name + ".txt"), error);
    EXPECT_TRUE(read) << error;
    return read.value_or(LayerProfile());
  }();

  double time(const std::vector<int> &layers) const {
    double ms = 0;
    for (int layer : layers)
      ms += profile.layers[layer].forwardMs + profile.layers[layer].backwardMs;
    return ms;
  }
  double weights(const std::vector<int> &layers) const {
    double bytes = 0;
    for (int layer : layers)
      bytes += profile.layers[layer].parameterBytes;
    return bytes;
  }

  /// The slowest stage or cut of a plan on one level, from the layers of its stages alone.
  double counted(const PipeDreamPlan &plan, PipeCost cost, double bandwidth) const {
    std::vector<size_t> stageOf(profile.layers.size(), plan.stages.size());
    for (size_t i = 0; i < plan.stages.size(); ++i)
      for (int layer : plan.stages[i].layers) {
        EXPECT_EQ(stageOf[layer], plan.stages.size());
        stageOf[layer] = i;
      }
    std::vector<size_t> last(profile.layers.size()); // by layer: the last stage that reads it
    for (size_t i = 0; i < profile.layers.size(); ++i) {
      EXPECT_LT(stageOf[i], plan.stages.size());
      for (int input : profile.layers[i].inputs) {
        EXPECT_LE(stageOf[input], stageOf[i]);
        last[input] = std::max(last[input], stageOf[i]);
      }
    }
    double slowest = 0;
    for (size_t i = 0; i < plan.stages.size(); ++i) {
      double m = static_cast<double>(plan.stages[i].replicas), crossing = 0;
      double sync = 4 * (m - 1) / m * weights(plan.stages[i].layers) / bandwidth * 1e3;
      double compute = time(plan.stages[i].layers);
      slowest = std::max(slowest, (cost == PipeCost::code ? compute + sync : std::max(compute, sync)) / m);
      for (size_t layer = 0; layer < stageOf.size(); ++layer)
        if (stageOf[layer] <= i && last[layer] > i)
          crossing += profile.layers[layer].activationBytes;
      if (cost == PipeCost::paper)
        slowest = std::max(slowest, 2 * crossing / bandwidth * 1e3);
    }
    return slowest;
  }
};

constexpr int64_t mostCuts = 1 << 18, mostSteps = 160'000'000;

TEST_P(Profiles, OneLevel) {
  ASSERT_EQ(profile.layers.size(), GetParam().layers);
  for (double bandwidth : {1.25e8, 1.25e9, 1.2e10})
    for (int64_t machines : {4, 8, 16, 32, 64})
      for (PipeCost cost : {PipeCost::paper, PipeCost::code}) {
        SCOPED_TRACE(std::to_string(machines) + (cost == PipeCost::paper ? " machines, paper" : " machines, code"));
        PipeDreamPlan plan = planPipeDream(profile, PipeLevel{machines, bandwidth}, cost);
        EXPECT_LE(plan.devices(), machines);
        EXPECT_NEAR(plan.slowestMs, counted(plan, cost, bandwidth), 1e-9 * plan.slowestMs);
        EXPECT_LE(plan.boundMs, plan.slowestMs);
        EXPECT_GE(plan.boundMs * static_cast<double>(machines), 0.999999 * plan.speedup * plan.slowestMs);
        EXPECT_LE(plan.slowestMs / plan.boundMs - 1, cost == PipeCost::paper ? GetParam().paper : GetParam().code);
        EXPECT_LE(plan.cuts, mostCuts);
        EXPECT_LE(plan.steps, mostSteps);
      }
}

/// Units of four and of eight devices. No plan of units is slower than the best one of a single unit, which is one
/// level's.
TEST_P(Profiles, TwoLevels) {
  for (int64_t inside : {4, 8})
    for (int64_t units : {2, 4, 8})
      for (PipeCost cost : {PipeCost::paper, PipeCost::code}) {
        SCOPED_TRACE(std::to_string(units) + " x " + std::to_string(inside) + (cost == PipeCost::paper ? "" : " code"));
        std::vector<PipeLevel> levels = {{inside, 1.2e10}, {units, 1.25e9}};
        PipeDreamPlan plan = planPipeDream(profile, levels, cost);
        std::set<int> layers;
        for (const PipeDreamPlan::Stage &stage : plan.stages) {
          ASSERT_EQ(stage.perLevel.size(), 2u);
          for (int layer : stage.layers) {
            EXPECT_TRUE(layers.insert(layer).second);
            for (int input : profile.layers[layer].inputs)
              EXPECT_TRUE(layers.count(input) ||
                          std::find(stage.layers.begin(), stage.layers.end(), input) != stage.layers.end());
          }
        }
        EXPECT_EQ(layers.size(), profile.layers.size());
        EXPECT_LE(plan.devices(), inside * units);
        EXPECT_LE(plan.boundMs, plan.slowestMs);
        EXPECT_LE(plan.slowestMs, planPipeDream(profile, levels[0], cost).slowestMs * (1 + 1e-9));
        EXPECT_LE(plan.steps, mostSteps);
      }
}

// ResNet-101, DenseNet-121 and GNMT are searched exactly.
INSTANTIATE_TEST_SUITE_P(PipeDream, Profiles,
                         testing::Values(Case{"resnet101", 346, 0, 0}, Case{"densenet121", 428, 0, 0},
                                         Case{"gnmt_large", 77, 0, 0}, Case{"inception_v3", 325, 0, 0.25},
                                         Case{"nasnetamobile", 920, 0.33, 0.011}),
                         [](const auto &info) { return info.param.name; });

} // namespace
