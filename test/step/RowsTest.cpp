// Into how many rows a kernel is divided.
#include "step/Rows.h"

#include "gtest/gtest.h"

using namespace divisi;

TEST(Rows, ShortRowsAreSingleElements) {
  EXPECT_EQ(step::chooseRows({1, 4, 8, 64}, 64, false), 4); // rows of 16 elements
  EXPECT_EQ(step::chooseRows({1, 4, 8, 64}, 64, true), 64);
  EXPECT_EQ(step::chooseRows({1, 12}, 12, false), 12);
}

TEST(Rows, AKernelWithoutElementsHasNone) { EXPECT_EQ(step::chooseRows({1, 0}, 0, false), 0); }
