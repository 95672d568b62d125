// Every reshard of small tensors, simulated step by step on several devices.
#include "dialects/Dist/Reshard.h"

#include <gtest/gtest.h>

#include <random>

using namespace divisi::dist;

namespace {

constexpr int64_t size = 8;
const Mesh mesh{{{"a", 2}, {"b", 2}, {"c", 2}}};

/// An 8 x 8 matrix on every device: the shape and the elements of each device's shard.
struct Devices {
  struct Local {
    int64_t rows, columns;
    std::vector<double> values;
    double &at(int64_t r, int64_t c) { return values[r * columns + c]; }
  };
  std::vector<Local> local;
};

int64_t indexOf(int device, int axis) { return device >> (2 - axis) & 1; }

int64_t pieceOf(int device, AxesRef axes) {
  int64_t piece = 0;
  for (int axis : axes)
    piece = piece * 2 + indexOf(device, axis);
  return piece;
}

/// The ranks that differ from a device only along the axes, in order.
std::vector<int> groupOf(int device, AxesRef axes) {
  std::vector<int> group;
  for (int64_t member = 0; member < mesh.parts(axes); ++member) {
    int other = device;
    for (size_t i = 0; i < axes.size(); ++i) {
      int bit = 2 - axes[i];
      int64_t index = member >> (axes.size() - 1 - i) & 1;
      other = (other & ~(1 << bit)) | ((int)index << bit);
    }
    group.push_back(other);
  }
  return group;
}

/// The matrix with elements 8 r + c under a sharding. Partial values are such that their sum is right: a device's part
/// is weighted by its index, and the weights of a group add up to one.
Devices place(const Sharding &sharding) {
  Devices devices;
  for (int device = 0; device < 8; ++device) {
    int64_t rows = size / mesh.parts(sharding.dims[0]), columns = size / mesh.parts(sharding.dims[1]);
    Devices::Local local{rows, columns, std::vector<double>(rows * columns)};
    double share = 1;
    for (int axis : sharding.pending)
      share *= indexOf(device, axis) ? 0.25 : 0.75;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c)
        local.at(r, c) = share * (double)((pieceOf(device, sharding.dims[0]) * rows + r) * size +
                                          pieceOf(device, sharding.dims[1]) * columns + c);
    devices.local.push_back(local);
  }
  return devices;
}

/// Shard `index` of `count` along a dimension.
Devices::Local cut(Devices::Local &from, int dim, int64_t index, int64_t count) {
  int64_t rows = dim == 0 ? from.rows / count : from.rows, columns = dim == 1 ? from.columns / count : from.columns;
  Devices::Local piece{rows, columns, std::vector<double>(rows * columns)};
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      piece.at(r, c) = from.at(r + (dim == 0 ? index * rows : 0), c + (dim == 1 ? index * columns : 0));
  return piece;
}

Devices::Local join(std::vector<Devices::Local> pieces, int dim) {
  int64_t n = (int64_t)pieces.size(), rows = pieces[0].rows, columns = pieces[0].columns;
  Devices::Local whole{dim == 0 ? rows * n : rows, dim == 1 ? columns * n : columns, {}};
  whole.values.resize(whole.rows * whole.columns);
  for (int64_t k = 0; k < n; ++k)
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c)
        whole.at(r + (dim == 0 ? k * rows : 0), c + (dim == 1 ? k * columns : 0)) = pieces[k].at(r, c);
  return whole;
}

Devices carryOut(const ReshardStep &step, Devices before) {
  using Kind = ReshardStep::Kind;
  Devices after;
  int64_t n = mesh.parts(step.axes);
  for (int device = 0; device < 8; ++device) {
    int64_t mine = pieceOf(device, step.axes);
    Devices::Local sum = before.local[device];
    std::vector<Devices::Local> all;
    for (int member : groupOf(device, step.axes))
      all.push_back(before.local[member]);
    if (step.kind == Kind::allReduce || step.kind == Kind::reduceScatter) {
      std::fill(sum.values.begin(), sum.values.end(), 0);
      for (auto &local : all)
        for (size_t i = 0; i < sum.values.size(); ++i)
          sum.values[i] += local.values[i];
    }
    if (step.kind == Kind::allToAll)
      for (auto &local : all)
        local = cut(local, step.to, mine, n);
    switch (step.kind) {
    case Kind::allReduce:
      after.local.push_back(sum);
      break;
    case Kind::reduceScatter:
    case Kind::slice:
      after.local.push_back(cut(sum, step.dim, mine, n));
      break;
    case Kind::allGather:
    case Kind::allToAll:
      after.local.push_back(join(all, step.dim));
      break;
    }
  }
  return after;
}

/// Each axis shards a dimension, is pending (if `pending`), or is not used; in every order.
std::vector<Sharding> all(bool pending) {
  std::vector<Sharding> list;
  for (int code = 0; code < 64; ++code)
    for (std::vector<int> order : {std::vector<int>{0, 1, 2}, {2, 1, 0}, {1, 2, 0}}) {
      Sharding sharding(2);
      bool skip = false;
      for (int axis : order) {
        int where = code >> (2 * axis) & 3; // 0 nowhere, 1 rows, 2 columns, 3 pending
        if (where == 3)
          sharding.pending.push_back(axis);
        else if (where > 0)
          sharding.dims[where - 1].push_back(axis);
      }
      llvm::sort(sharding.pending);
      skip = !pending && !sharding.pending.empty();
      if (!skip && !llvm::is_contained(list, sharding))
        list.push_back(sharding);
    }
  return list;
}

TEST(ReshardTest, EveryReshardGivesTheSharding) {
  int64_t checked = 0;
  for (const Sharding &from : all(true))
    for (const Sharding &to : all(false)) {
      Devices devices = place(from);
      for (const ReshardStep &step : planReshard(from, to))
        devices = carryOut(step, devices);
      Devices expected = place(to);
      for (int device = 0; device < 8; ++device)
        ASSERT_EQ(devices.local[device].values, expected.local[device].values);
      ++checked;
    }
  EXPECT_GT(checked, 1000);
}

std::vector<ReshardStep::Kind> kinds(const Sharding &from, const Sharding &to) {
  std::vector<ReshardStep::Kind> list;
  for (const ReshardStep &step : planReshard(from, to))
    list.push_back(step.kind);
  return list;
}

TEST(ReshardTest, TakesTheCheapestCollective) {
  using Kind = ReshardStep::Kind;
  Sharding whole(2), rows(2), columns(2), sum(2);
  rows.dims[0] = {0};
  columns.dims[1] = {0};
  sum.pending = {0};
  EXPECT_EQ(kinds(sum, whole), std::vector{Kind::allReduce});
  EXPECT_EQ(kinds(sum, rows), std::vector{Kind::reduceScatter}); // not all_reduce and slice
  EXPECT_EQ(kinds(rows, columns), std::vector{Kind::allToAll});  // not all_gather and slice
  EXPECT_EQ(kinds(rows, whole), std::vector{Kind::allGather});
  EXPECT_EQ(kinds(whole, rows), std::vector{Kind::slice}); // no communication
  EXPECT_TRUE(kinds(rows, rows).empty());
  Sharding both = rows;
  both.dims[0] = {0, 1};
  EXPECT_EQ(kinds(both, whole), std::vector{Kind::allGather}); // one collective over both axes
  Sharding two = sum;
  two.pending = {0, 1};
  EXPECT_EQ(kinds(two, whole), std::vector{Kind::allReduce});
  EXPECT_TRUE(kinds(two, two).empty()); // pending axes may stay pending
}

/// Reductions alone lead to what is sent, which has nothing pending that the receivers do not keep so.
TEST(ReshardTest, WhatIsSentIsReducedAlone) {
  using Kind = ReshardStep::Kind;
  for (const Sharding &from : all(true))
    for (const Sharding &to : all(false)) {
      Sharding sent = sentSharding(from, to, {size, size}, mesh);
      EXPECT_TRUE(sent.pending.empty());
      Devices devices = place(from);
      for (const ReshardStep &step : planReshard(from, sent)) {
        EXPECT_EQ(step.kind, Kind::reduceScatter); // every dimension divides
        devices = carryOut(step, devices);
      }
      Devices expected = place(sent);
      for (int device = 0; device < 8; ++device)
        ASSERT_EQ(devices.local[device].values, expected.local[device].values);
    }
  Sharding sum(2), columns(2);
  sum.pending = {0};
  columns.dims[1] = {0};
  EXPECT_EQ(sentSharding(sum, columns, {8, 8}, mesh), columns); // as the receivers have it
  EXPECT_EQ(sentSharding(sum, columns, {8, 3}, mesh).dims[0], Axes{0});
  EXPECT_EQ(sentSharding(sum, Sharding(2), {3, 3}, mesh), Sharding(2)); // nothing divides
  EXPECT_EQ(sentSharding(sum, sum, {8, 8}, mesh), sum);
}
} // namespace
