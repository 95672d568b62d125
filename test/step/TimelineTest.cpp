// Times of items on streams, by hand and against a definition by recursion.
#include "step/Timeline.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <functional>
#include <random>

using divisi::step::Timeline;

TEST(Timeline, ACollectiveOverlapsWithComputation) {
  Timeline timeline;
  int first = timeline.add(0, 3), second = timeline.add(0, 4);
  int reduce = timeline.add(1, 10);
  timeline.wait(first, reduce);
  int update = timeline.add(0, 2);
  timeline.wait(reduce, update);
  ASSERT_TRUE(timeline.run());
  EXPECT_EQ(timeline.start(second), 3);
  EXPECT_EQ(timeline.start(reduce), 3);
  EXPECT_EQ(timeline.start(update), 13);
  EXPECT_EQ(timeline.end(), 15);
}

TEST(Timeline, TheBeginningIsNoItem) {
  Timeline timeline;
  int only = timeline.add(5, 2);
  timeline.wait(-1, only);
  ASSERT_TRUE(timeline.run());
  EXPECT_EQ(timeline.end(-1), 0);
  EXPECT_EQ(timeline.end(only), 2);
}

TEST(Timeline, CirclesHaveNoTimes) {
  Timeline timeline;
  int a = timeline.add(0, 1), b = timeline.add(1, 1);
  timeline.wait(a, b);
  timeline.wait(b, a);
  timeline.add(2, 3);
  EXPECT_FALSE(timeline.run());
}

TEST(Timeline, AnItemStartsWhenAllBeforeItHaveEnded) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const int count = 1 + random() % 16, streams = 1 + random() % 4;
    Timeline timeline;
    std::vector<int> streamOf, durations;
    std::vector<std::vector<int>> waits(count);
    for (int item = 0; item < count; ++item) {
      streamOf.push_back(random() % streams);
      durations.push_back(random() % 10);
      ASSERT_EQ(timeline.add(streamOf[item], durations[item]), item);
    }
    for (int item = 1; item < count; ++item)
      for (int n = random() % 3; n > 0; --n) {
        waits[item].push_back(random() % item);
        timeline.wait(waits[item].back(), item);
      }
    ASSERT_TRUE(timeline.run());
    std::function<int(int)> end = [&](int item) {
      int start = 0;
      for (int before : waits[item])
        start = std::max(start, end(before));
      for (int before = item - 1; before >= 0; --before)
        if (streamOf[before] == streamOf[item]) {
          start = std::max(start, end(before));
          break;
        }
      return start + durations[item];
    };
    for (int item = 0; item < count; ++item)
      EXPECT_EQ(timeline.end(item), end(item)) << "round " << round << ", item " << item;
  }
}
