#include "compiler/Elastic.h"

#include <gtest/gtest.h>

using namespace divisi::compiler;

TEST(ElasticTest, TheLargestSizeThatIsLeft) {
  ElasticJob job({2, 3, 4}, 2, 4);
  EXPECT_EQ(job.size(), 4);
  EXPECT_FALSE(job.mayGrow());
  job.lose(1);
  EXPECT_EQ(job.size(), 3);
  EXPECT_TRUE(job.mayGrow());
  job.lose(1);
  EXPECT_EQ(job.size(), 2);
  job.lose(1);
  EXPECT_EQ(job.size(), 0) << "below the minimum";
  EXPECT_EQ(job.alive(), 1);
  job.grow();
  EXPECT_EQ(job.size(), 4);
}

TEST(ElasticTest, RanksWithoutAProgramOfTheirNumberAreSpare) {
  ElasticJob job({2, 4, 8}, 1, 8);
  job.lose(1);
  EXPECT_EQ(job.size(), 4);
  job.lose(2);
  EXPECT_EQ(job.alive(), 5);
  EXPECT_EQ(job.size(), 4) << "of five, two of four were lost, and one was spare";
  job.lose(2);
  EXPECT_EQ(job.size(), 2);
  job.lose(9);
  EXPECT_EQ(job.alive(), 0);
  EXPECT_EQ(job.size(), 0);
}

TEST(ElasticTest, BoundsAreKept) {
  EXPECT_EQ(ElasticJob({2, 3, 4}, 1, 3).size(), 3);
  EXPECT_EQ(ElasticJob({2, 3, 4}, 1, 3).all(), 3);
  EXPECT_EQ(ElasticJob({2, 3, 4}, 5, 9).size(), 0);
  ElasticJob job({2, 4}, 3, 4);
  job.lose(1);
  EXPECT_EQ(job.size(), 0) << "2 is below the minimum";
}

TEST(ElasticTest, WhatCountsAsALoss) {
  using enum RankEnd;
  EXPECT_EQ(lostRanks({finished, finished}, true), 0);
  EXPECT_EQ(lostRanks({stopped, stopped}, true), 0);
  EXPECT_EQ(lostRanks({failed, failed, killed}, true), 0) << "an error of the program, after which one rank was slow";
  EXPECT_EQ(lostRanks({failed, lost, failed, killed}, true), 1) << "the others failed because of it";
  EXPECT_EQ(lostRanks({lost, lost, gaveUp}, true), 2);
  EXPECT_EQ(lostRanks({gaveUp, killed, gaveUp}, true), 1) << "a silent rank";
  EXPECT_EQ(lostRanks({stopped, failed, killed}, true), 0);
  EXPECT_EQ(lostRanks({failed, failedAlone, failed}, true), 1) << "the job can go on without it";
  EXPECT_EQ(lostRanks({failed, failedAlone, failed}, false), 0) << "it would fail again";
  EXPECT_EQ(lostRanks({lost, failedAlone, failed}, false), 1);
}
