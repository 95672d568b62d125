// Between which ranks GPUs exchange messages directly.
#include "runtime/core/Routes.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

using namespace divisi::runtime;

namespace {
using Pairs = std::set<std::pair<int, int>>;

Pairs pairsOf(const std::vector<Route> &routes) {
  Pairs pairs;
  for (const Route &route : routes)
    EXPECT_TRUE(pairs.insert({route.from, route.to}).second) << route.from << " to " << route.to << " twice";
  return pairs;
}

/// Two stages of two ranks: the peer has the same index along the other axis; its own stage needs no route.
TEST(RoutesTest, GoAlongTheAxisOfStages) {
  std::vector<Route> routes = routesOf(Mesh({{"stage", 2}, {"data", 2}}), {{{0, 1}, 8}, {{1, 0}, 4}, {{1, 1}, 2}}, 1);
  EXPECT_EQ(pairsOf(routes), (Pairs{{0, 2}, {1, 3}, {2, 0}, {3, 1}}));
  for (const Route &route : routes)
    EXPECT_EQ(route.bytes, route.from < 2 ? 8 : 4);
  EXPECT_TRUE(routesOf(Mesh({{"data", 2}}), {}, 1).empty());
}

/// Stages of 2, 3 and 1 replicas: ranks 0 and 1, 2 to 4, and 5.
TEST(RoutesTest, ReplicasInTurnHaveOneForEachMicrobatch) {
  Mesh mesh({{"stage", 3}, {"turn", 2}, {"turn2", 3}}, {{2}, {1}, {1, 2}});
  mesh.setTurns({1, 2, std::nullopt});
  Pairs expected;
  for (int microbatch = 0; microbatch < 12; ++microbatch) {
    expected.insert({microbatch % 2, 2 + microbatch % 3});
    expected.insert({5, 2 + microbatch % 3});
  }
  EXPECT_EQ(pairsOf(routesOf(mesh, {{{0, 1}, 8}, {{2, 1}, 8}}, 0)), expected);
}

/// Stages of 2 and 4 replicas: each of the first works with two of the second.
TEST(RoutesTest, ReplicasThatNeverMeetHaveNone) {
  Mesh mesh({{"stage", 2}, {"turn", 2}, {"turn2", 4}}, {{2}, {1}});
  mesh.setTurns({1, 2});
  EXPECT_EQ(pairsOf(routesOf(mesh, {{{0, 1}, 8}}, 0)), (Pairs{{0, 2}, {1, 3}, {0, 4}, {1, 5}}));
}

/// A GPU has 32 queues: three for the rank's streams, two for each communicator, and a third for the stream of a route.
/// Both directions get as many of them.
TEST(RoutesTest, ARankHasAsManyAsItsGpuHasQueues) {
  Mesh mesh({{"stage", 2}, {"turn", 12}}, {{}, {1}});
  mesh.setTurns({1, std::nullopt});
  for (int groups : {0, 1, 3, 20}) {
    int from = 0, to = 0;
    for (auto [sender, receiver] : pairsOf(routesOf(mesh, {{{0, 1}, 8}, {{1, 0}, 8}}, static_cast<size_t>(groups))))
      ++(sender == 12 ? from : to);
    EXPECT_LE(3 + 2 * groups + 3 * (from + to), groups == 20 ? 43 : 32);
    EXPECT_GT(3 + 2 * groups + 3 * (from + to + 1), 32);
    EXPECT_LE(std::abs(from - to), 1);
  }
}

/// Messages of stages that share every microbatch and lack axes of each other go from one rank to several.
TEST(RoutesTest, StagesOfDifferentAxesHaveNone) {
  EXPECT_TRUE(routesOf(Mesh({{"stage", 2}, {"data", 2}}, {{}, {1}}), {{{0, 1}, 8}}, 0).empty());
}
} // namespace
