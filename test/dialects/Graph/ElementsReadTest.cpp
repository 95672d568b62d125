// The elements that kernels read: by hand, and of random kernels against the sets of what they read.
#include "dialects/Graph/ElementsRead.h"

#include "gtest/gtest.h"

#include <random>
#include <set>

using namespace divisi::graph;

namespace {
TEST(ElementsRead, BehindASliceOnlyWhatItTakes) {
  // 2 = 0 + 1, of 12 elements; 3 = a slice of 5 of it, which is written.
  EXPECT_EQ(elementsRead({{Form::elementwise, false, {{0, 12}, {1, 1}}, {2}, 12}, {Form::elementwise, true, {{2, 12}}, {3}, 5}}, {{3, 5}}),
            (llvm::DenseMap<int, double>{{0, 5}, {1, 1}, {2, 5}, {3, 5}}));
}

TEST(ElementsRead, WhatIsWrittenOrSummedIsNeededWhole) {
  const Reader sum{Form::elementwise, false, {{0, 12}}, {1}, 12}, slice{Form::elementwise, true, {{1, 12}}, {2}, 5};
  EXPECT_EQ(elementsRead({sum, slice}, {{1, 12}, {2, 5}}).lookup(0), 12);
  EXPECT_EQ(elementsRead({sum, slice, {Form::reduction, false, {{1, 12}}, {3}, 1}}, {{2, 5}, {3, 1}}).lookup(0), 12);
}

TEST(ElementsRead, AGatherReadsItsIndices) {
  const Reader gather{Form::elementwise, true, {{0, 1000}, {1, 4}}, {2}, 40};
  EXPECT_EQ(elementsRead({gather}, {{2, 40}}).lookup(0), 40);
  EXPECT_EQ(elementsRead({gather}, {{2, 40}}).lookup(1), 4);
  EXPECT_EQ(elementsRead({{Form::elementwise, true, {{0, 30}, {1, 4}}, {2}, 40}}, {{2, 40}}).lookup(0), 30) << "not more than there is";
  EXPECT_EQ(elementsRead({gather, gather}, {{2, 40}}).lookup(0), 80) << "twice";
}

TEST(ElementsRead, NoLessThanWhatRandomKernelsRead) {
  std::mt19937 random(7);
  auto draw = [&](int from, int to) { return from + (int)(random() % (to - from + 1)); };
  for (int round = 0; round < 500; ++round) {
    using Elements = std::vector<std::set<int>>; // by element: those of the input from which it is computed
    std::vector<Elements> values(1, Elements(12));
    for (int i = 0; i < 12; ++i)
      values[0][i] = {i};
    std::vector<Reader> ops;
    std::vector<int> uses(1);
    for (int length = draw(1, 5); (int)ops.size() < length;) {
      const int from = draw(0, (int)ops.size());
      const Elements &source = values[from];
      Elements made;
      Reader op{Form::elementwise, false, {{from, (double)source.size()}}, {(int)values.size()}};
      switch (draw(0, 2)) {
      case 0: // of each element
        made = source;
        break;
      case 1: { // a slice
        const int size = draw(1, (int)source.size()), start = draw(0, (int)source.size() - size);
        made.assign(source.begin() + start, source.begin() + start + size);
        op.readsPart = true;
        break;
      }
      default: // the sum
        made.resize(1);
        for (const std::set<int> &element : source)
          made[0].insert(element.begin(), element.end());
        op.form = Form::reduction;
      }
      op.elements = (double)made.size();
      ops.push_back(op);
      values.push_back(std::move(made));
      ++uses[from];
      uses.push_back(0);
    }
    std::vector<std::pair<int, double>> written;
    std::set<int> read;
    for (size_t v = 1; v < values.size(); ++v)
      if (!uses[v]) {
        written.push_back({(int)v, (double)values[v].size()});
        for (const std::set<int> &element : values[v])
          read.insert(element.begin(), element.end());
      }
    const double counted = elementsRead(ops, written).lookup(0);
    EXPECT_LE(counted, 12);
    if (written.size() == 1) // a chain
      EXPECT_EQ(counted, (double)read.size());
    else
      EXPECT_GE(counted, (double)read.size());
  }
}
} // namespace
