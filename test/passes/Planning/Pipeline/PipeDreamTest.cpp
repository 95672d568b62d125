// The partitioner compared with its definition, by exhaustive search.
#include "Networks.h"
#include "passes/Planning/Pipeline/Hierarchy.h"
#include "passes/Planning/Pipeline/PipeDreamReport.h"
#include "test/passes/Planning/Unwrap.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>

using namespace divisi::planning;
using namespace divisi::planning::test;
using divisi::test::unwrap;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// The definition by enumeration, with sets of layers as bits; it shares no code with the planner.
class Definition {
public:
  Definition(const LayerProfile &profile, std::vector<PipeLevel> levels)
      : profile(profile), levels(std::move(levels)), all((1u << profile.layers.size()) - 1) {}

  double best() { return levels.empty() ? sum(all) : from(levels.size() - 1, 0, all); }

  bool closed(unsigned set) const {
    for (size_t i = 0; i < profile.layers.size(); ++i)
      for (int input : profile.layers[i].inputs)
        if ((set >> i & 1) && !(set >> input & 1))
          return false;
    return true;
  }
  double sum(unsigned set) const {
    double result = 0;
    for (size_t i = 0; i < profile.layers.size(); ++i)
      if (set >> i & 1)
        result += profile.layers[i].forwardMs + profile.layers[i].backwardMs;
    return result;
  }
  double crossing(unsigned set, double bandwidth) const {
    double bytes = 0;
    for (size_t i = 0; i < profile.layers.size(); ++i) {
      bool leaves = false;
      for (size_t j = 0; j < profile.layers.size(); ++j)
        for (int input : profile.layers[j].inputs)
          leaves |= input == static_cast<int>(i) && !(set >> j & 1);
      if ((set >> i & 1) && leaves)
        bytes += profile.layers[i].activationBytes;
    }
    return bytes / bandwidth * 1000;
  }
  double stage(double one, unsigned set, int64_t m, double bandwidth) const {
    double sync = 0;
    for (size_t i = 0; i < profile.layers.size(); ++i)
      if (set >> i & 1)
        sync +=
            4.0 * static_cast<double>(m - 1) / static_cast<double>(m) * profile.layers[i].parameterBytes / bandwidth;
    return std::max(one, sync * 1000) / static_cast<double>(m);
  }

private:
  /// The least over all chains of downsets from `inner` to `outer` and all numbers of units.
  double from(size_t level, unsigned inner, unsigned outer) {
    auto [known, added] = times.try_emplace({level, inner, outer}, infinity);
    if (!added)
      return known->second;
    double result = infinity;
    chains(level, inner, outer, levels[level].size, 0, result);
    return times[{level, inner, outer}] = result;
  }

  void chains(size_t level, unsigned inner, unsigned outer, int64_t units, double slowest, double &best) {
    if (inner == outer)
      best = std::min(best, slowest);
    if (inner == outer || units == 0)
      return;
    for (unsigned next = inner + 1; next <= outer; ++next) {
      if ((next & inner) != inner || (next & ~outer) || !closed(next))
        continue;
      double one = level == 0 ? sum(next & ~inner) : from(level - 1, inner, next);
      double cut = next == outer ? 0 : 2 * crossing(next, levels[level].bandwidth);
      for (int64_t m = 1; m <= units; ++m)
        chains(level, next, outer, units - m,
               std::max({slowest, cut, stage(one, next & ~inner, m, levels[level].bandwidth)}), best);
    }
  }

  const LayerProfile &profile;
  std::vector<PipeLevel> levels;
  unsigned all;
  std::map<std::tuple<size_t, unsigned, unsigned>, double> times;
};

/// Up to `most` layers; sometimes whole numbers, so that many plans take the same time.
LayerProfile randomProfile(Random &random, int most) {
  LayerProfile profile;
  int count = 1 + random.below(most), density = 1 + random.below(5);
  bool whole = random.below(3) == 0, heavy = random.below(2);
  auto number = [&](double limit) {
    return random.below(6) == 0 ? 0 : whole ? static_cast<double>(random.below(4)) : random.upTo(limit);
  };
  for (int i = 0; i < count; ++i) {
    LayerProfile::Layer layer{"l" + std::to_string(i),   number(3), number(6), number(3e6),
                              number(heavy ? 2e7 : 2e6), {}};
    if (whole) {
      layer.activationBytes *= 1e6;
      layer.parameterBytes *= 1e6;
    }
    for (int input = 0; input < i; ++input)
      if (density == 5 ? input == i - 1 : random.below(5) < density)
        layer.inputs.push_back(input);
    profile.layers.push_back(std::move(layer));
  }
  return profile;
}

/// Checks that the stages are a chain of downsets that contains every layer once, and that their times are those of the
/// definition.
void check(const LayerProfile &profile, const PipeDreamPlan &plan, const std::vector<PipeLevel> &levels,
           const Definition &definition) {
  unsigned inside = 0;
  int64_t devices = 1;
  for (const PipeLevel &level : levels)
    devices *= level.size;
  double slowest = 0;
  for (const PipeDreamPlan::Stage &stage : plan.stages) {
    unsigned set = 0;
    for (int layer : stage.layers)
      set |= 1u << layer;
    ASSERT_NE(set, 0u);
    ASSERT_EQ(set & inside, 0u);
    inside |= set;
    ASSERT_TRUE(definition.closed(inside));
    int64_t product = 1;
    for (int64_t replicas : stage.perLevel)
      product *= replicas;
    EXPECT_EQ(product, stage.replicas);
    EXPECT_GE(stage.replicas, 1);
    if (levels.size() == 1) {
      bool last = &stage == &plan.stages.back();
      EXPECT_NEAR(stage.ms, definition.stage(definition.sum(set), set, stage.replicas, levels[0].bandwidth), 1e-9);
      EXPECT_NEAR(stage.transferMs, last ? 0 : 2 * definition.crossing(inside, levels[0].bandwidth), 1e-9);
    }
    slowest = std::max({slowest, stage.ms, stage.transferMs});
  }
  EXPECT_EQ(inside, (1u << profile.layers.size()) - 1);
  EXPECT_LE(plan.devices(), devices);
  EXPECT_EQ(plan.slowestMs, slowest);
  EXPECT_EQ(plan.considered, plan.cuts);
}

PipeDreamPlan planOf(const LayerProfile &profile, const std::vector<PipeLevel> &levels) {
  std::string error;
  auto plan = unwrap(planPipeDream(profile, levels), error);
  EXPECT_TRUE(plan) << error;
  return plan.value_or(PipeDreamPlan());
}

TEST(PipeDream, OptimalOnRandomGraphs) {
  int several = 0, replicated = 0;
  for (int seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    LayerProfile profile = randomProfile(random, 6);
    double bandwidth = random.below(8) == 0 ? infinity : 1e8 * (1 + random.upTo(60));
    std::vector<PipeLevel> levels = {{1 + random.below(5), bandwidth}};
    Definition definition(profile, levels);
    PipeDreamPlan plan = planOf(profile, levels);
    check(profile, plan, levels, definition);
    double best = definition.best();
    ASSERT_NEAR(plan.slowestMs, best, 1e-10 * std::max(best, 1e-3));
    EXPECT_NEAR(plan.speedup * best, definition.sum((1u << profile.layers.size()) - 1), 1e-9);
    several += plan.stages.size() > 1;
    replicated += plan.devices() > static_cast<int64_t>(plan.stages.size());
  }
  EXPECT_GT(several, 200); // the random graphs are not all trivial
  EXPECT_GT(replicated, 300);
}

TEST(PipeDream, OptimalOnHierarchies) {
  int nested = 0;
  for (int seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    LayerProfile profile = randomProfile(random, 5);
    std::vector<PipeLevel> levels;
    for (int level = 0, count = 2 + random.below(2); level < count; ++level)
      levels.push_back({2 + random.below(level ? 2 : 3), 1e8 * (1 + random.upTo(60))});
    Definition definition(profile, levels);
    PipeDreamPlan plan = planOf(profile, levels);
    check(profile, plan, levels, definition);
    double best = definition.best();
    ASSERT_NEAR(plan.slowestMs, best, 1e-10 * std::max(best, 1e-3));
    nested += plan.stages.size() > 1;
  }
  EXPECT_GT(nested, 200);
}

/// The two searches have different orders and leave out different cuts.
TEST(PipeDream, BothSearchesAgreeOnOneLevel) {
  for (int seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    LayerProfile profile = randomProfile(random, 14);
    PipeLevel level{1 + random.below(24), 1e8 * (1 + random.upTo(60))};
    std::string error;
    auto cuts = unwrap(Cuts::of(profile), error);
    ASSERT_TRUE(cuts) << error;
    Hierarchy hierarchy(*cuts, level);
    if (hierarchy.considered() < cuts->count())
      continue;
    double slowest = 0;
    int64_t devices = 0;
    for (const Hierarchy::Stage &stage : hierarchy.run()) {
      slowest = std::max({slowest, stage.ms, stage.transferMs});
      devices += stage.perLevel[0];
    }
    PipeDreamPlan plan = planOf(profile, {level});
    EXPECT_NEAR(plan.slowestMs, slowest, 1e-10 * std::max(slowest, 1e-3));
    EXPECT_LE(plan.devices(), devices);
  }
}

TEST(PipeDream, Degenerate) {
  LayerProfile one{{{"a", 1, 2, 100, 100, {}}}};
  for (const std::vector<PipeLevel> &levels : {std::vector<PipeLevel>{}, {{1, 1e9}}}) {
    PipeDreamPlan plan = planOf(one, levels);
    ASSERT_EQ(plan.stages.size(), 1u);
    EXPECT_EQ(plan.stages[0].replicas, 1);
    EXPECT_EQ(plan.slowestMs, 3);
    EXPECT_EQ(plan.speedup, 1);
  }
  EXPECT_EQ(planOf(one, {{4, infinity}}).speedup, 4);

  // Nothing takes time: one device does it.
  LayerProfile free{{{"a", 0, 0, 0, 0, {}}, {"b", 0, 0, 5, 5, {0}}}};
  PipeDreamPlan plan = planOf(free, {{8, 1e9}});
  EXPECT_EQ(plan.devices(), 1);
  EXPECT_EQ(plan.slowestMs, 0);
  EXPECT_EQ(plan.speedup, 1);

  // No bytes: all devices share the work evenly, in one stage.
  LayerProfile chain;
  for (int i = 0; i < 16; ++i)
    chain.layers.push_back({"l" + std::to_string(i), 1, 2, 0, 0, i ? std::vector<int>{i - 1} : std::vector<int>{}});
  plan = planOf(chain, {{4, 1}});
  EXPECT_EQ(plan.stages.size(), 1u);
  EXPECT_NEAR(plan.speedup, 4, 1e-12);

  // A link so slow that one device is best.
  for (LayerProfile::Layer &layer : chain.layers)
    layer.activationBytes = layer.parameterBytes = 1e9;
  plan = planOf(chain, {{4, 1}});
  EXPECT_EQ(plan.devices(), 1);
  EXPECT_EQ(plan.speedup, 1);

  // No parameters cross with one replica each: a straight pipeline.
  for (LayerProfile::Layer &layer : chain.layers)
    layer.activationBytes = 0;
  plan = planOf(chain, {{4, 1}});
  EXPECT_EQ(plan.stages.size(), 4u);
  EXPECT_EQ(plan.devices(), 4);
  EXPECT_NEAR(plan.speedup, 4, 1e-12);
}

/// Two replicas synchronise longer than one computes: the second device is not used.
TEST(PipeDream, LeavesDevicesOver) {
  LayerProfile profile{{{"a", 1, 2, 1e9, 1e8, {}}, {"b", 1, 2, 1e9, 1e8, {0}}}};
  PipeDreamPlan plan = planOf(profile, {{2, 1e9}});
  EXPECT_EQ(plan.devices(), 1);
  EXPECT_EQ(plan.slowestMs, 6);
}

/// A value that crosses a cut counts once, however many consumers it has, and also crosses the stages in between.
TEST(PipeDream, CrossingBytes) {
  LayerProfile profile{
      {{"a", 1, 1, 8, 0, {}}, {"b", 1, 1, 4, 0, {0}}, {"c", 1, 1, 2, 0, {0}}, {"d", 1, 1, 1, 0, {0, 1, 2}}}};
  std::string error;
  auto cuts = unwrap(Cuts::of(profile), error);
  ASSERT_TRUE(cuts);
  std::map<std::vector<int>, double> crossing;
  for (int i = 0; i < cuts->count(); ++i)
    crossing[cuts->layersBetween(0, i)] = (*cuts)[i].crossingBytes;
  std::map<std::vector<int>, double> expected = {{{}, 0},      {{0}, 8},        {{0, 1}, 12},
                                                 {{0, 2}, 10}, {{0, 1, 2}, 14}, {{0, 1, 2, 3}, 0}};
  EXPECT_EQ(crossing, expected);
}

TEST(PipeDream, Levels) {
  std::string error;
  Cluster cluster = *unwrap(parseCluster("2x8xh100", thisMachine()), error);
  auto sizes = [&](int64_t devices) {
    std::vector<int64_t> result;
    if (auto levels = unwrap(pipeLevels(cluster, devices), error))
      for (const PipeLevel &level : *levels)
        result.push_back(level.size);
    return result;
  };
  EXPECT_EQ(sizes(16), (std::vector<int64_t>{8, 2}));
  EXPECT_EQ(sizes(4), (std::vector<int64_t>{4}));
  EXPECT_EQ(sizes(1), (std::vector<int64_t>{}));
  EXPECT_EQ(error, "");
  EXPECT_EQ(sizes(12), (std::vector<int64_t>{}));
  EXPECT_EQ(error, "12 devices are not whole units of 8 on level 'nvlink'");
  EXPECT_EQ(sizes(17), (std::vector<int64_t>{}));
  EXPECT_EQ(error, "the cluster has 16 devices, 17 are asked for");
}

TEST(PipeDream, Report) {
  LayerProfile profile{{{"a", 1, 3, 1.25e5, 0, {}}, {"b\n", 1, 1, 1e5, 1e9, {0}}}};
  PipeDreamPlan plan = planOf(profile, {{4, 1e9}});
  EXPECT_EQ(llvm::formatv("{0}", llvm::json::Value(pipeDreamJson(plan, profile, 4))).str(),
            R"({"cuts":3,"cuts_considered":3,"devices":4,"devices_used":3,"objective":"pipedream","slowest_ms":2,)"
            R"("speedup":3,"stages":[{"layers":["a"],"ms":2,"replicas":2,"replicas_per_level":[2],"transfer_ms":0.25},)"
            R"({"layers":["b\n"],"ms":2,"replicas":1,"replicas_per_level":[1],"transfer_ms":0}]})");
  std::string text;
  llvm::raw_string_ostream os(text);
  printPipeDream(plan, profile, 4, os);
  EXPECT_EQ(text, "3 of 4 devices, slowest stage 2.000 ms, 3.00 times as fast as one device\n"
                  "stage  replicas          ms  transfer ms  layers  from .. to\n"
                  "    1         2       2.000        0.250       1  a\n"
                  "    2         1       2.000        0.000       1  b?\n");
}

} // namespace
