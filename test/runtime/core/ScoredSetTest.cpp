#include "runtime/core/ScoredSet.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

using namespace divisi::runtime;

namespace {

struct Drawn {
  std::vector<float> scores, labels;
  int64_t rows() const { return static_cast<int64_t>(labels.size()); }
  ScoredSet set(int64_t classes) const {
    ScoredSet set(classes, true);
    for (int64_t begin = 0; begin < rows(); begin += 7) // in batches
      set.add(reinterpret_cast<const char *>(scores.data() + begin * classes), reinterpret_cast<const char *>(labels.data() + begin),
              std::min<int64_t>(7, rows() - begin));
    return set;
  }
};

// The share of ordered pairs, by all of them.
double areaByPairs(const Drawn &drawn, int64_t classes, int64_t c) {
  auto odds = [&](int64_t row) {
    long double others = 0;
    for (int64_t k = 0; k < classes; ++k)
      if (k != c)
        others += std::exp(static_cast<long double>(drawn.scores[row * classes + k]));
    return static_cast<double>(drawn.scores[row * classes + c] - std::log(others));
  };
  double right = 0, pairs = 0;
  for (int64_t i = 0; i < drawn.rows(); ++i)
    for (int64_t j = 0; j < drawn.rows(); ++j)
      if (drawn.labels[i] == static_cast<float>(c) && drawn.labels[j] != static_cast<float>(c) && drawn.labels[j] >= 0) {
        double difference = odds(i) - odds(j);
        right += std::abs(difference) < 1e-9 ? 0.5 : difference > 0;
        pairs += 1;
      }
  return right / pairs;
}

TEST(ScoredSet, IsTheShareOfOrderedPairs) {
  std::mt19937 draw(1);
  for (int64_t classes : {2, 3, 5}) {
    Drawn drawn;
    for (int i = 0; i < 60; ++i) {
      drawn.labels.push_back(i % 9 == 0 ? -100.0f : static_cast<float>(draw() % classes));
      for (int64_t c = 0; c < classes; ++c)
        drawn.scores.push_back(static_cast<float>(draw() % 5) / 2);
    }
    double want = classes == 2 ? areaByPairs(drawn, 2, 1) : 0;
    for (int64_t c = 0; c < classes && classes > 2; ++c)
      want += areaByPairs(drawn, classes, c) / static_cast<double>(classes);
    EXPECT_NEAR(drawn.set(classes).auc(), want, 1e-12);
  }
}

TEST(ScoredSet, TellsProbabilitiesApartThatRoundToOne) {
  Drawn drawn{{0, 60, 0, 61, 0, 62, 0, 63}, {0, 0, 1, 1}};
  EXPECT_DOUBLE_EQ(drawn.set(2).auc(), 1);
  Drawn three{{0, 0, 60, 0, 0, 61, 0, 0, 62, 9, 0, 0}, {1, 1, 2, 0}};
  EXPECT_DOUBLE_EQ(three.set(3).auc(), (1.0 + 0.5 + 1.0) / 3); // of class 1: above 62's, below that of (9, 0, 0), twice
}

TEST(ScoredSet, AveragesOverClassesThatOccur) {
  // Labels 0 0 1, chosen 0 1 1; class 2 does not occur, class 3 is no class.
  Drawn drawn{{1, 0, 0, 0, 1, 0, 0, 1, 0, 5, 5, 5}, {0, 0, 1, 3}};
  EXPECT_DOUBLE_EQ(drawn.set(3).f1(), 2.0 / 3);
  EXPECT_DOUBLE_EQ(drawn.set(3).iou(), 0.5);
  EXPECT_TRUE(std::isnan(Drawn{}.set(3).f1()) && std::isnan(Drawn{}.set(3).iou()) && std::isnan(Drawn{}.set(3).auc()));
  EXPECT_TRUE(std::isnan(Drawn({{1, 2}, {1}}).set(2).auc())); // one class alone
}

TEST(ScoredSet, TakesNotANumberForTheLargest) {
  Drawn drawn{{0, NAN, 9, NAN, 1, 2}, {1, 0}};
  EXPECT_DOUBLE_EQ(drawn.set(3).f1(), 1);
  EXPECT_TRUE(std::isnan(drawn.set(3).auc()));
}
} // namespace
