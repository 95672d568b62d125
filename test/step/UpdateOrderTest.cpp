// Where updates run: by hand, and of random steps that no value is read before it is written or after its place is
// taken.
#include "step/UpdateOrder.h"

#include "llvm/ADT/STLExtras.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <map>
#include <random>

using namespace divisi::step;

namespace {
/// Two layers. Buffers: 0, 1 weights; 2 activation, 3 and 4 gradients of the weights, 5 of the activation; 6, 7 new
/// weights.
struct TwoLayers {
  std::vector<OrderedItem> items{
      {{0}, {2}, {}, false, true}, // 0: forward
      {{2}, {4}, {}, false, true}, // 1: gradient of weight 1
      {{1}, {5}, {}, false, true}, // 2: gradient of the activation, by weight 1
      {{5}, {3}, {}, false, true}, // 3: gradient of weight 0
      {{1, 4}, {7}, {1}, true},    // 4: update of weight 1
      {{0, 3}, {6}, {0}, true},    // 5: update of weight 0
  };
  std::vector<int64_t> bytes{0, 0, 10, 20, 20, 10, 0, 0};
  std::vector<int> order(bool forGpu = false) { return orderUpdates(items, bytes, forGpu); }
};
} // namespace

TEST(UpdateOrder, AnUpdateFollowsTheLastReaderOfTheOldWeight) {
  EXPECT_EQ(TwoLayers().order(), (std::vector<int>{0, 1, 2, 3, 2, 3}));
  EXPECT_EQ(sortBehind(TwoLayers().order()), (std::vector<int>{0, 1, 2, 4, 3, 5}));
}

TEST(UpdateOrder, WhatReadsAllGradientsStaysAtTheEnd) {
  TwoLayers step;
  step.bytes.push_back(4);
  step.items.insert(step.items.begin() + 4, {{3, 4}, {8}}); // the norm of all gradients, by which they are clipped
  step.items[5].reads.push_back(8);
  step.items[6].reads.push_back(8);
  EXPECT_EQ(sortBehind(step.order()), (std::vector<int>{0, 1, 2, 3, 4, 5, 6}));
}

TEST(UpdateOrder, ANormForTheLogMovesWithTheUpdate) {
  TwoLayers step;
  step.bytes.push_back(0);
  step.items.insert(step.items.begin() + 4, {{4}, {8}});
  EXPECT_EQ(sortBehind(step.order()), (std::vector<int>{0, 1, 2, 4, 5, 3, 6}));
}

TEST(UpdateOrder, NothingMovesWhereAnUpdatesOwnValuesRaiseThePeak) {
  TwoLayers step;
  step.bytes.push_back(0);
  step.items.insert(step.items.begin() + 4, {{4}, {8}, {}, true}); // orthogonalizes the gradient of weight 1
  step.items[5].reads.push_back(8);
  EXPECT_EQ(sortBehind(step.order()), (std::vector<int>{0, 1, 2, 4, 5, 3, 6}));
  step.bytes[2] = 0;  // at the end 20, 20 and 40 bytes; beside the gradient of the activation 20, 200 and 40
  step.bytes[5] = 200;
  step.bytes[8] = 40;
  step.items[6].reads.push_back(4); // nothing is freed by the first update
  EXPECT_TRUE(llvm::is_sorted(sortBehind(step.order())));
}

TEST(UpdateOrder, ScalarsRunBeforeTheirFirstReader) {
  TwoLayers step;
  step.bytes.push_back(4);
  step.items.insert(step.items.begin() + 4, {{}, {8}});
  step.items[5].reads.push_back(8);
  step.items[6].reads.push_back(8);
  EXPECT_EQ(sortBehind(step.order()), (std::vector<int>{0, 1, 2, 4, 5, 3, 6}));
}

TEST(UpdateOrder, OnGpusSmallUpdatesShareALaunch) {
  EXPECT_EQ(TwoLayers().order(true), (std::vector<int>{0, 1, 2, 3, 4, 5}));
  // 64 layers of 1 MB: 32 groups.
  std::vector<OrderedItem> items;
  std::vector<int64_t> bytes;
  const int layers = 64;
  for (int i = 0; i < layers; ++i) {
    items.push_back({{}, {i}, {}, false, true});
    bytes.push_back(1 << 20);
  }
  for (int i = 0; i < layers; ++i) {
    items.push_back({{i}, {}, {layers + i}, true});
    bytes.push_back(0);
  }
  std::map<int, int> groups;
  std::vector<int> behind = orderUpdates(items, bytes, true);
  for (int i = layers; i < 2 * layers; ++i)
    ++groups[behind[i]];
  EXPECT_EQ(groups.size(), 32u);
  for (auto [at, updates] : groups)
    EXPECT_EQ(updates, 2);
}

/// Random steps: a chain of calls whose results some later ones read, then updates that read gradients, other values
/// and what updates before them made.
TEST(UpdateOrder, ReadsWhatTheProgramReads) {
  std::mt19937 random(7);
  auto below = [&](int n) { return (int)(random() % n); };
  for (int round = 0; round < 300; ++round) {
    const int states = 1 + below(6), calls = 1 + below(20), updates = states + below(8);
    std::vector<OrderedItem> items;
    std::vector<int64_t> bytes(states); // the first buffers are old state
    std::vector<int> renewed;
    for (int i = 0; i < calls + updates; ++i) {
      OrderedItem &item = items.emplace_back();
      item.call = i < calls;
      for (int n = 1 + below(3); n > 0; --n)
        item.reads.push_back(below(bytes.size()));
      item.writes.push_back(bytes.size());
      bytes.push_back(below(3) ? 1 + below(3 << 20) : 0);
      if (int state = i - calls; state >= 0 && state < states) {
        item.reads.push_back(state);
        item.renews.push_back(state);
        item.trains = below(3);
        bytes.back() = 0;
      }
    }
    for (bool forGpu : {false, true}) {
      std::vector<int> order = sortBehind(orderUpdates(items, bytes, forGpu)), at(items.size());
      ASSERT_TRUE(std::is_permutation(order.begin(), order.end(), sortBehind(std::vector<int>(items.size())).begin()));
      for (size_t i = 0; i < order.size(); ++i)
        at[order[i]] = i;
      for (int i = 1; i < calls; ++i)
        EXPECT_LT(at[i - 1], at[i]);
      for (size_t i = 0; i < items.size(); ++i)
        for (size_t j = 0; j < i; ++j) {
          bool first = false; // whether item j has to run before item i
          for (int read : items[i].reads)
            first |= llvm::is_contained(items[j].writes, read);
          for (int old : items[i].renews)
            first |= llvm::is_contained(items[j].reads, old);
          EXPECT_LE(first, at[j] < at[i]);
        }
    }
  }
}
