// The partitioner compared with its definition, by exhaustive search.
#include "Definition.h"
#include "passes/Planning/Pipeline/Hierarchy.h"
#include "passes/Planning/Pipeline/LowerBound.h"
#include "passes/Planning/Pipeline/PipeDreamReport.h"
#include "test/passes/Planning/Unwrap.h"

#include <gtest/gtest.h>

#include <map>

using namespace divisi::planning;
using namespace divisi::planning::test;
using divisi::test::unwrap;

namespace {

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
  EXPECT_EQ(plan.boundMs, plan.slowestMs); // so few layers are searched exactly
}

TEST(PipeDream, OptimalOnRandomGraphs) {
  int several = 0, replicated = 0;
  for (int seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    LayerProfile profile = randomProfile(random, 6);
    double bandwidth = random.below(8) == 0 ? infinity : 1e8 * (1 + random.upTo(60));
    std::vector<PipeLevel> levels = {{1 + random.below(5), bandwidth}};
    PipeCost cost = random.below(3) ? PipeCost::paper : PipeCost::code;
    Definition definition(profile, levels, cost);
    PipeDreamPlan plan = planPipeDream(profile, levels, cost);
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
  int nested = 0, tight = 0;
  for (int seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    LayerProfile profile = randomProfile(random, 5);
    std::vector<PipeLevel> levels;
    for (int level = 0, count = 2 + random.below(2); level < count; ++level)
      levels.push_back({2 + random.below(level ? 2 : 3), 1e8 * (1 + random.upTo(60))});
    PipeCost cost = random.below(3) ? PipeCost::paper : PipeCost::code;
    Definition definition(profile, levels, cost);
    PipeDreamPlan plan = planPipeDream(profile, levels, cost);
    check(profile, plan, levels, definition);
    double best = definition.best();
    ASSERT_NEAR(plan.slowestMs, best, 1e-10 * std::max(best, 1e-3));
    EXPECT_LE(lowerBound(profile, levels, cost), best * (1 + 1e-9));
    tight += lowerBound(profile, levels, cost) > best * 0.99;
    nested += plan.stages.size() > 1;
  }
  EXPECT_GT(nested, 200);
  EXPECT_GT(tight, 100);
}

/// Up to twelve layers on up to eight devices.
TEST(PipeDream, OptimalOnTwelveLayers) {
  for (int seed = 0; seed < 200; ++seed)
    for (PipeCost cost : {PipeCost::paper, PipeCost::code}) {
      SCOPED_TRACE(seed);
      Random random(seed);
      LayerProfile profile = randomProfile(random, 12);
      std::vector<PipeLevel> levels = {{2 + random.below(7), 1e8 * (1 + random.upTo(60))}};
      Definition definition(profile, levels, cost);
      PipeDreamPlan plan = planPipeDream(profile, levels, cost);
      check(profile, plan, levels, definition);
      double best = definition.bestOfLevel();
      ASSERT_NEAR(plan.slowestMs, best, 1e-10 * std::max(best, 1e-3));
      EXPECT_LE(lowerBound(profile, levels, cost), best * (1 + 1e-9));
    }
}

/// A graph with its nodes in an order, of which some windows are free: its cuts are some of the profile's, with the
/// figures of the definition, among them all of the order.
TEST(PipeDream, RestrictedGraphs) {
  int fewer = 0, more = 0;
  for (int seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    LayerProfile profile = randomProfile(random, 12);
    Definition definition(profile, {});
    LayerGroups groups(profile.layers.size());
    LayerGraph graph(profile, groups);
    int count = graph.size();
    std::vector<int> order, missing;
    for (const LayerGraph::Node &node : graph.nodes)
      missing.push_back(static_cast<int>(node.inputs.size()));
    while (static_cast<int>(order.size()) < count) {
      int node = random.below(count);
      if (missing[node] != 0)
        continue;
      missing[node] = -1;
      order.push_back(node);
      for (int consumer : graph.nodes[node].consumers)
        --missing[consumer];
    }
    std::vector<LayerGraph::Window> windows;
    for (int at = random.below(4); at < count; at += 1 + random.below(4)) {
      int end = std::min(count, at + 1 + random.below(5));
      windows.push_back({at, end});
      at = end;
    }
    auto all = Cuts::of(graph), cuts = Cuts::of(graph.restricted(order, windows));
    ASSERT_TRUE(all && cuts);
    fewer += cuts->count() < all->count();
    more += cuts->count() > count + 1;
    std::map<unsigned, int> known;
    for (int i = 0; i < cuts->count(); ++i) {
      unsigned set = 0;
      for (int layer : cuts->layersBetween(0, i))
        set |= 1u << layer;
      EXPECT_TRUE(known.emplace(set, i).second);
      ASSERT_TRUE(definition.closed(set));
      EXPECT_NEAR((*cuts)[i].ms, definition.sum(set), 1e-9);
      EXPECT_NEAR((*cuts)[i].crossingBytes, definition.crossingBytes(set), 1e-3);
    }
    unsigned prefix = 0;
    for (int node : order) {
      for (int layer : graph.nodes[node].layers)
        prefix |= 1u << layer;
      EXPECT_TRUE(known.count(prefix));
    }
  }
  EXPECT_GT(fewer, 100);
  EXPECT_GT(more, 100);
}

/// Joining layers without time and weights leaves the best plan as good, with fewer cuts.
TEST(PipeDream, FreeLayersAreJoined) {
  int joined = 0;
  for (int seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    LayerProfile profile = randomProfile(random, 9);
    for (LayerProfile::Layer &layer : profile.layers)
      if (random.below(2))
        layer.forwardMs = layer.backwardMs = layer.parameterBytes = 0;
    std::vector<PipeLevel> levels = {{1 + random.below(4), 1e8 * (1 + random.upTo(60))}};
    double best = Definition(profile, levels).bestOfLevel();
    EXPECT_NEAR(planPipeDream(profile, levels).slowestMs, best, 1e-10 * std::max(best, 1e-3));
    LayerGroups groups(profile.layers.size());
    groups.joinFreeLayers(profile);
    joined += LayerGraph(profile, groups).size() < static_cast<int>(profile.layers.size());
  }
  EXPECT_GT(joined, 100);
}

/// The two searches have different orders and leave out different cuts.
TEST(PipeDream, BothSearchesAgreeOnOneLevel) {
  for (int seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    LayerProfile profile = randomProfile(random, 14);
    PipeLevel level{1 + random.below(24), 1e8 * (1 + random.upTo(60))};
    PipeCost cost = random.below(2) ? PipeCost::code : PipeCost::paper;
    auto cuts = Cuts::of(LayerGraph(profile, LayerGroups(profile.layers.size())));
    ASSERT_TRUE(cuts);
    if (cuts->count() > 1000)
      continue;
    int64_t steps = int64_t(1) << 40;
    Hierarchy hierarchy(*cuts, level, cost, Hierarchy::keep(*cuts, 1000), steps);
    double slowest = 0;
    int64_t devices = 0;
    for (const Hierarchy::Stage &stage : hierarchy.run()) {
      slowest = std::max({slowest, stage.ms, stage.transferMs});
      devices += stage.perLevel[0];
    }
    PipeDreamPlan plan = planPipeDream(profile, {level}, cost);
    EXPECT_NEAR(plan.slowestMs, slowest, 1e-10 * std::max(slowest, 1e-3));
    EXPECT_LE(plan.devices(), devices);
  }
}

TEST(PipeDream, Degenerate) {
  LayerProfile one{{{"a", 1, 2, 100, 100, {}}}};
  for (const std::vector<PipeLevel> &levels : {std::vector<PipeLevel>{}, {{1, 1e9}}}) {
    PipeDreamPlan plan = planPipeDream(one, levels);
    ASSERT_EQ(plan.stages.size(), 1u);
    EXPECT_EQ(plan.stages[0].replicas, 1);
    EXPECT_EQ(plan.slowestMs, 3);
    EXPECT_EQ(plan.speedup, 1);
  }
  EXPECT_EQ(planPipeDream(one, {{4, infinity}}).speedup, 4);

  // Nothing takes time: one device does it.
  LayerProfile free{{{"a", 0, 0, 0, 0, {}}, {"b", 0, 0, 5, 5, {0}}}};
  PipeDreamPlan plan = planPipeDream(free, {{8, 1e9}});
  EXPECT_EQ(plan.devices(), 1);
  EXPECT_EQ(plan.slowestMs, 0);
  EXPECT_EQ(plan.speedup, 1);

  // No bytes: all devices share the work evenly, in one stage.
  LayerProfile chain;
  for (int i = 0; i < 16; ++i)
    chain.layers.push_back({"l" + std::to_string(i), 1, 2, 0, 0, i ? std::vector<int>{i - 1} : std::vector<int>{}});
  plan = planPipeDream(chain, {{4, 1}});
  EXPECT_EQ(plan.stages.size(), 1u);
  EXPECT_NEAR(plan.speedup, 4, 1e-12);

  // A link so slow that one device is best.
  for (LayerProfile::Layer &layer : chain.layers)
    layer.activationBytes = layer.parameterBytes = 1e9;
  plan = planPipeDream(chain, {{4, 1}});
  EXPECT_EQ(plan.devices(), 1);
  EXPECT_EQ(plan.speedup, 1);

  // No parameters cross with one replica each: a straight pipeline.
  for (LayerProfile::Layer &layer : chain.layers)
    layer.activationBytes = 0;
  plan = planPipeDream(chain, {{4, 1}});
  EXPECT_EQ(plan.stages.size(), 4u);
  EXPECT_EQ(plan.devices(), 4);
  EXPECT_NEAR(plan.speedup, 4, 1e-12);
}

/// Two replicas synchronise longer than one computes: the second device is not used.
TEST(PipeDream, LeavesDevicesOver) {
  LayerProfile profile{{{"a", 1, 2, 1e9, 1e8, {}}, {"b", 1, 2, 1e9, 1e8, {0}}}};
  PipeDreamPlan plan = planPipeDream(profile, {{2, 1e9}});
  EXPECT_EQ(plan.devices(), 1);
  EXPECT_EQ(plan.slowestMs, 6);
}

/// A value that crosses a cut counts once, however many consumers it has, and also crosses the stages in between.
TEST(PipeDream, CrossingBytes) {
  LayerProfile profile{
      {{"a", 1, 1, 8, 0, {}}, {"b", 1, 1, 4, 0, {0}}, {"c", 1, 1, 2, 0, {0}}, {"d", 1, 1, 1, 0, {0, 1, 2}}}};
  auto cuts = Cuts::of(LayerGraph(profile, LayerGroups(profile.layers.size())));
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

/// Data parallelism: 6 ms of compute and 4 3/4 of a second to synchronise 1 GB, on 4 devices.
/// Data parallelism on 2 x 3 devices: a round has 6 minibatches, and both levels synchronise once in it.
TEST(PipeDream, DataParallelismOnLevels) {
  LayerProfile profile;
  profile.layers.push_back({"only", 4, 8, 0, 3e6, {}});
  PipeDreamPlan plan = planPipeDream(profile, {{2, 1e9}, {3, 5e8}}, PipeCost::code);
  EXPECT_NEAR(plan.dataParallelMs, (12 + 4 * (1. / 2) * 3 + 4 * (2. / 3) * 6) / 6, 1e-9);
  // In a round the devices of 3 pairs send 2 (1/2) of the parameters each, and 3 pairs 2 (2/3) each.
  EXPECT_NEAR(plan.dataParallelBytes, (6 * 1 * 3e6 + 3 * (4. / 3) * 3e6) / 6, 1e-3);
}

TEST(PipeDream, Report) {
  LayerProfile profile{{{"a", 1, 3, 1.25e5, 0, {}}, {"b\n", 1, 1, 1e5, 1e9, {0}}}};
  PipeDreamPlan plan = planPipeDream(profile, {{4, 1e9}});
  EXPECT_EQ(llvm::formatv("{0}", llvm::json::Value(pipeDreamJson(plan, profile, 4))).str(),
            R"({"bound_ms":2,"cost":"paper","cuts":3,"data_parallel_bytes":1500000000,"data_parallel_ms":751.5,)"
            R"("devices":4,"devices_used":3,"objective":"pipedream","sent_bytes":250000,"slowest_ms":2,"speedup":3,)"
            R"("speedup_over_data_parallel":375.75,)"
            R"("stages":[{"begins_at":["a","b\n"],"layers":["a"],"ms":2,"positions":[0],"replicas":2,"replicas_per_level":[2],"transfer_ms":0.25},)"
            R"({"begins_at":["b\n"],"layers":["b\n"],"ms":2,"positions":[1],"replicas":1,"replicas_per_level":[1],"transfer_ms":0}]})");
  std::string text;
  llvm::raw_string_ostream os(text);
  printPipeDream(plan, profile, 4, os);
  EXPECT_EQ(text, "3 of 4 devices, slowest stage 2.000 ms, 3.00 times as fast as one device\n"
                  "data parallelism (BSP): 751.500 ms; the stages are 375.75 times as fast, and send 0.25 MB per "
                  "minibatch instead of 1500.00 MB (100.0 % less)\n"
                  "stage  replicas          ms  transfer ms  layers  from .. to\n"
                  "    1         2       2.000        0.250       1  a\n"
                  "    2         1       2.000        0.000       1  b?\n");
}

} // namespace
