#include "passes/Planning/Remat/Segments.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>

using namespace divisi::planning;

/// The bytes with segments that begin at these nodes: live bytes at the cuts, and the most that one segment keeps.
static double memoryOf(const std::vector<RematNode> &nodes, const std::vector<int> &begins) {
  double crossing = 0, most = 0;
  for (size_t i = 0; i < begins.size(); ++i) {
    int end = i + 1 < begins.size() ? begins[i + 1] : (int)nodes.size();
    double kept = 0;
    for (int n = begins[i]; n < end; ++n)
      kept += nodes[n].kept;
    crossing += nodes[begins[i]].crossing;
    most = std::max(most, kept);
  }
  return crossing + most;
}

/// Tries every set of cuts.
static double bruteForce(const std::vector<RematNode> &nodes) {
  double least = 1e30;
  for (unsigned mask = 0; mask < 1u << (nodes.size() - 1); ++mask) {
    std::vector<int> begins = {0};
    for (size_t i = 1; i < nodes.size(); ++i)
      if (mask >> (i - 1) & 1)
        begins.push_back((int)i);
    least = std::min(least, memoryOf(nodes, begins));
  }
  return least;
}

TEST(RematSegments, AChainIsCutIntoTheSquareRootOfItsLength) {
  // n layers that keep k bytes and pass on one: n k / s + s is least for s = sqrt(n k) segments (arXiv 1604.06174).
  std::vector<RematNode> nodes(16, {1, 4, 1});
  nodes[0].crossing = 0;
  auto segments = segmentsForRemat(nodes);
  ASSERT_EQ(segments.size(), 7u); // the last of eight is not recomputed
  for (const RematSegment &segment : segments) {
    EXPECT_EQ(segment.end - segment.begin, 2);
    EXPECT_EQ(segment.saved, segment.begin ? 7 : 8);
    EXPECT_EQ(segment.seconds, 2);
  }
}

TEST(RematSegments, TheMostBytesForTheTimeComeFirst) {
  auto segments = segmentsForRemat({{9, 8, 0}, {1, 8, 1}, {1, 8, 1}});
  ASSERT_EQ(segments.size(), 2u);
  EXPECT_EQ(segments[0].begin, 1);
  EXPECT_EQ(segments[1].begin, 0);
}

TEST(RematSegments, WhatSavesNothingIsNotComputedAgain) {
  EXPECT_TRUE(segmentsForRemat({}).empty());
  EXPECT_TRUE(segmentsForRemat({{1, 8, 0}}).empty());
  EXPECT_TRUE(segmentsForRemat({{1, 0, 0}, {1, 0, 4}, {1, 0, 4}}).empty());
  for (const RematSegment &segment : segmentsForRemat({{1, 8, 0}, {1, 2, 3}, {1, 8, 0}, {1, 8, 0}}))
    EXPECT_GT(segment.saved, 0);
}

TEST(RematSegments, IsWithinTenPercentOfTheOptimum) {
  std::mt19937 random(11);
  for (int round = 0; round < 500; ++round) {
    std::vector<RematNode> nodes(2 + random() % 10);
    int left = 64; // bytes kept in all: every budget is tried
    for (RematNode &node : nodes) {
      node = {1.0 + random() % 4, std::min<double>(left, random() % 16), double(random() % 12)};
      left -= int(node.kept);
    }
    nodes.back().kept += left;
    nodes[0].crossing = 0;
    EXPECT_LE(memoryOf(nodes, cutForRemat(nodes)), 1.1 * bruteForce(nodes)) << "round " << round;
  }
}
