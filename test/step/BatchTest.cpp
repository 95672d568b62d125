#include "step/Batch.h"

#include "llvm/ADT/ArrayRef.h"

#include <gtest/gtest.h>

using divisi::step::Batch;

namespace {

Batch::Kernel kernel(llvm::ArrayRef<uint64_t> reads, llvm::ArrayRef<uint64_t> writes, bool single = false) {
  Batch::Kernel result;
  result.reads.assign(reads.begin(), reads.end());
  result.writes.assign(writes.begin(), writes.end());
  result.single.assign(reads.size(), single);
  return result;
}

TEST(Batch, TakesWhatDependsOnNoMember) {
  Batch batch;
  EXPECT_TRUE(batch.empty());
  batch.add(kernel({1, 2}, {3}));
  EXPECT_FALSE(batch.empty());
  EXPECT_TRUE(batch.takes(kernel({4}, {5})));
  EXPECT_FALSE(batch.takes(kernel({3}, {6}))); // a member writes it
  EXPECT_FALSE(batch.takes(kernel({2}, {6}))); // a member reads it
}

TEST(Batch, SharesSingleElements) {
  Batch batch;
  batch.add(kernel({1}, {2}, /*single=*/true));
  EXPECT_TRUE(batch.takes(kernel({1}, {3}, /*single=*/true)));
}

TEST(Batch, HasAsManyMembersAsALaunchHasParameters) {
  Batch wide, full;
  std::vector<uint64_t> many(400);
  for (size_t i = 0; i < many.size(); ++i)
    many[i] = 1000 + i;
  wide.add(kernel(many, {1}));
  EXPECT_TRUE(wide.takes(kernel(llvm::ArrayRef<uint64_t>({2, 3}), {4})));
  for (uint64_t &buffer : many)
    buffer += 1000;
  EXPECT_FALSE(wide.takes(kernel(many, {5})));
  for (uint64_t i = 0; i < 64; ++i) {
    EXPECT_TRUE(full.takes(kernel({2 * i}, {2 * i + 1})));
    full.add(kernel({2 * i}, {2 * i + 1}));
  }
  EXPECT_FALSE(full.takes(kernel({1000}, {1001})));
}
} // namespace
