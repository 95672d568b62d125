// Buckets of collectives, by hand and against their definition, found by searching all dependences again each time.
#include "step/Buckets.h"

#include "gtest/gtest.h"

#include <functional>
#include <random>

using namespace divisi::step;

namespace {

Collective of(int64_t bytes, int64_t when = 0) {
  Collective reduce;
  reduce.axes = {0};
  reduce.when = when;
  reduce.bytes = bytes;
  return reduce;
}

TEST(Buckets, SmallOnesAreCombinedUntilTheLimit) {
  Buckets buckets(64);
  int a = buckets.add({}, of(32)), b = buckets.add({}, of(32)), c = buckets.add({}, of(32));
  int large = buckets.add({}, of(64)), d = buckets.add({}, of(8));
  ASSERT_GE(buckets.bucketOf(a), 0);
  EXPECT_EQ(buckets.bucketOf(a), buckets.bucketOf(b));
  EXPECT_EQ(buckets.bucketOf(large), -1);
  EXPECT_EQ(buckets.bucketOf(c), buckets.bucketOf(d));
  EXPECT_NE(buckets.bucketOf(a), buckets.bucketOf(c));
  EXPECT_EQ(buckets.members(buckets.bucketOf(c)).vec(), (std::vector<int>{c, d}));
}

TEST(Buckets, MessagesCloseThem) {
  Buckets buckets;
  int a = buckets.add({}, of(8));
  buckets.close();
  int b = buckets.add({}, of(8)), c = buckets.add({}, of(8));
  EXPECT_EQ(buckets.bucketOf(a), -1);
  EXPECT_EQ(buckets.bucketOf(b), buckets.bucketOf(c));
}

/// A collective over n members.
Collective ofType(Collective::Type type, int64_t bytes, int64_t members) {
  Collective collective = of(bytes);
  collective.type = type;
  collective.members = members;
  return collective;
}

TEST(Buckets, TypesStayApart) {
  using Type = Collective::Type;
  Buckets buckets;
  std::vector<int> items;
  for (Type type :
       {Type::allReduce, Type::reduceScatter, Type::allGather, Type::allReduce, Type::reduceScatter, Type::allGather})
    items.push_back(buckets.add({}, ofType(type, 8, 2)));
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(buckets.members(buckets.bucketOf(items[i])).vec(), (std::vector<int>{items[i], items[i + 3]}));
}

// Copying 128 KiB in and out takes as long as a hop, of which a ring has one for each other member.
TEST(Buckets, WhatTakesLongerToCopyThanItsHopsRunsAlone) {
  constexpr int64_t hop = 1 << 17;
  for (auto type : {Collective::Type::reduceScatter, Collective::Type::allGather}) {
    for (int64_t members : {2, 4, 8, 64}) {
      const int64_t least = std::min<int64_t>(1 << 20, (members - 1) * hop);
      Buckets buckets;
      int small = buckets.add({}, ofType(type, least - 4, members)),
          large = buckets.add({}, ofType(type, least, members));
      int other = buckets.add({}, ofType(type, 4, members));
      EXPECT_EQ(buckets.bucketOf(large), -1);
      EXPECT_GE(buckets.bucketOf(small), 0) << members << " members";
      EXPECT_EQ(buckets.bucketOf(small), buckets.bucketOf(other));
    }
  }
  Buckets alone; // nothing is saved
  EXPECT_EQ(alone.bucketOf(alone.add({}, ofType(Collective::Type::allGather, 4, 1))), -1);
}

TEST(Buckets, LayersStayApart) {
  Buckets buckets;
  std::vector<int> items;
  for (int64_t layer : {0, 0, 1, -1, 1, -1}) {
    Collective gather = ofType(Collective::Type::allGather, 8, 4);
    gather.layer = layer;
    items.push_back(buckets.add({}, gather));
  }
  for (auto [a, b] : {std::pair(0, 1), {2, 4}, {3, 5}})
    EXPECT_EQ(buckets.members(buckets.bucketOf(items[a])).vec(), (std::vector<int>{items[a], items[b]}));
}

/// What depends on what, with the members of a bucket as one.
struct Definition {
  std::vector<std::vector<int>> operands;
  std::vector<std::vector<int>> buckets;
  std::vector<int> bucketOf;
  std::vector<Collective> reduces;

  bool depends(int item, int on) const {
    std::vector<bool> seen(operands.size());
    std::function<bool(int)> look = [&](int at) {
      if (at == on)
        return true;
      if (seen[at])
        return false;
      seen[at] = true;
      std::vector<int> members = bucketOf[at] < 0 ? std::vector<int>{at} : buckets[bucketOf[at]];
      for (int member : members) {
        if (member == on)
          return true;
        for (int operand : operands[member])
          if (look(operand))
            return true;
      }
      return false;
    };
    return look(item);
  }

  void add(std::vector<int> from, const Collective *reduce, int64_t limit) {
    int item = operands.size();
    operands.push_back(std::move(from));
    bucketOf.push_back(-1);
    reduces.push_back(reduce ? *reduce : Collective());
    if (!reduce || reduce->bytes >= limit)
      return;
    for (size_t b = 0; b < buckets.size(); ++b) {
      int64_t bytes = 0;
      bool fits = true;
      for (int member : buckets[b]) {
        bytes += reduces[member].bytes;
        fits = fits && reduces[member].when == reduce->when && !depends(item, member);
      }
      if (fits && bytes < limit) {
        buckets[b].push_back(item);
        bucketOf[item] = b;
        return;
      }
    }
    bucketOf[item] = buckets.size();
    buckets.push_back({item});
  }
};

TEST(Buckets, AreAsTheirDefinition) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    const int64_t limit = 1 + random() % 40;
    const int sorts = 1 + random() % 3, apart = 1 + random() % 12;
    Buckets buckets(limit);
    Definition expected;
    const int count = 5 + random() % 80;
    for (int item = 0; item < count; ++item) {
      std::vector<int> operands;
      for (int n = item > 0 ? random() % 3 : 0; n > 0; --n)
        operands.push_back(std::max<int>(0, item - 1 - (int)(random() % apart)));
      Collective reduce = of(1 + random() % 12, random() % sorts);
      bool isReduce = random() % 2;
      expected.add(operands, isReduce ? &reduce : nullptr, limit);
      ASSERT_EQ(isReduce ? buckets.add(operands, reduce) : buckets.add(operands), item);
    }
    std::vector<int64_t> positions;
    std::vector<llvm::SmallVector<int, 4>> edges;
    std::vector<int> node(count);
    for (int item = 0; item < count; ++item) {
      int bucket = expected.bucketOf[item];
      bool combined = bucket >= 0 && expected.buckets[bucket].size() > 1;
      ASSERT_EQ(buckets.bucketOf(item) >= 0, combined) << "round " << round << ", item " << item;
      if (combined) {
        ASSERT_EQ(buckets.members(buckets.bucketOf(item)).vec(), expected.buckets[bucket]) << "round " << round;
      }
      if (!combined || expected.buckets[bucket][0] == item) {
        node[item] = positions.size();
        positions.push_back(combined ? expected.buckets[bucket].back() : item);
        edges.emplace_back();
      } else {
        node[item] = node[expected.buckets[bucket][0]];
      }
      for (int operand : expected.operands[item])
        edges[node[item]].push_back(node[operand]);
    }
    std::vector<int> order = sortByPosition(positions, edges), at(order.size());
    ASSERT_EQ(order.size(), positions.size());
    for (size_t i = 0; i < order.size(); ++i)
      at[order[i]] = i;
    for (size_t i = 0; i < edges.size(); ++i)
      for (int operand : edges[i])
        EXPECT_LT(at[operand], at[i]) << "round " << round;
  }
}

TEST(SortByPosition, TheFirstOfACircleDoesNotWait) {
  EXPECT_EQ(sortByPosition({0, 1, 2}, {{2}, {0}, {1}}), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(sortByPosition({2, 0, 1}, {{}, {0}, {}}), (std::vector<int>{2, 0, 1}));
}
} // namespace
