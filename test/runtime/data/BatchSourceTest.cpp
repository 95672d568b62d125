#include "runtime/data/BatchSource.h"
#include "runtime/core/Json.h"
#include "runtime/core/Team.h"
#include "runtime/data/Shuffle.h"
#include "test/runtime/FakeProgram.h"
#include "test/runtime/Util.h"

#include <cstring>
#include <numeric>
#include <set>

using namespace divisi::runtime;
using namespace divisi::test;

namespace {
class BatchSourceTest : public testing::Test {
protected:
  BatchSourceTest() {
    manifest = *parseManifest(fakeProgram());
    for (int i = 0; i < 30; ++i)
      x.push_back(static_cast<float>(i));
    for (int i = 0; i < 10; ++i)
      label.push_back(i);
    writeNpy(folder / "x.npy", "<f4", {10, 3}, x);
    writeNpy(folder / "label.npy", "<i8", {10}, label);
  }
  Result<BatchSource> open(const std::string &xFile = "x.npy", const std::string &labelFile = "label.npy") {
    return BatchSource::open(manifest, {{"x", folder / xFile}, {"label", folder / labelFile}}, "--data",
                             [&](const std::string &line) { notes.push_back(line); });
  }
  float xAt(int64_t i) const { return readNumber(arena + 4 * i, DataType::F32); }
  int64_t labelAt(int64_t i) const { return readInteger(arena + 64 + 8 * i, DataType::I64); }

  TemporaryFolder folder;
  Manifest manifest;
  std::vector<float> x;
  std::vector<int64_t> label;
  std::vector<std::string> notes;
  alignas(64) char arena[fakeArenaBytes] = {};
};

TEST_F(BatchSourceTest, ConsecutiveRowsAreConsecutiveBatches) {
  Result<BatchSource> source = open();
  ASSERT_TRUE(succeeded(source));
  EXPECT_EQ(source->samples(), 10);
  EXPECT_EQ(source->fullBatches(), 2);
  EXPECT_EQ(source->allBatches(), 3);
  int64_t rows = 0;
  ASSERT_TRUE(succeeded(source->load(1, arena, rows)));
  EXPECT_EQ(rows, 4);
  for (int64_t i = 0; i < 12; ++i)
    EXPECT_EQ(xAt(i), 12 + i);
  for (int64_t i = 0; i < 4; ++i)
    EXPECT_EQ(labelAt(i), 4 + i);
  EXPECT_TRUE(notes.empty());
}

TEST_F(BatchSourceTest, AnIncompleteBatchIsPadded) {
  std::memset(arena, 0x55, 128);
  Result<BatchSource> source = open();
  ASSERT_TRUE(succeeded(source));
  int64_t rows = 0;
  ASSERT_TRUE(succeeded(source->load(2, arena, rows)));
  EXPECT_EQ(rows, 2);
  for (int64_t i = 0; i < 12; ++i)
    EXPECT_EQ(xAt(i), i < 6 ? 24 + i : 0);
  for (int64_t i = 0; i < 4; ++i)
    EXPECT_EQ(labelAt(i), i < 2 ? 8 + i : -100);
  EXPECT_EQ(arena[96], 0x55); // behind the labels
}

TEST_F(BatchSourceTest, InputsThatAreNotNeededArePadding) {
  std::set<std::string> needed = {"x"};
  std::memset(arena, 0x55, 128);
  Result<BatchSource> source = BatchSource::open(manifest, {{"x", folder / "x.npy"}}, "--data", {}, {}, &needed);
  ASSERT_TRUE(succeeded(source));
  EXPECT_EQ(source->samples(), 10);
  int64_t rows = 0;
  ASSERT_TRUE(succeeded(source->load(0, arena, rows)));
  EXPECT_EQ(rows, 4);
  EXPECT_EQ(xAt(11), 11);
  for (int64_t i = 0; i < 4; ++i)
    EXPECT_EQ(labelAt(i), -100);
  EXPECT_TRUE(failsWith(BatchSource::open(manifest, {}, "--data", {}, {}, &needed), "no file for input 'x'"));
}

TEST_F(BatchSourceTest, ShufflingKeepsRowsTogetherAndCoversAll) {
  Result<BatchSource> source = open();
  ASSERT_TRUE(succeeded(source));
  source->shuffle(3, 5);
  std::vector<int64_t> seen;
  for (int64_t b = 0; b < 3; ++b) {
    int64_t rows = 0;
    ASSERT_TRUE(succeeded(source->load(b, arena, rows)));
    for (int64_t i = 0; i < rows; ++i) {
      seen.push_back(labelAt(i));
      EXPECT_EQ(xAt(3 * i + 1), 3 * labelAt(i) + 1);
    }
  }
  std::vector<uint32_t> order = permutation(3, 5, 10);
  EXPECT_EQ(seen, std::vector<int64_t>(order.begin(), order.end()));
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(seen, label);
}

TEST_F(BatchSourceTest, ConvertsOnlyWhatIsSafe) {
  writeNpy(folder / "x8.npy", "<f8", {10, 3}, std::vector<double>(x.begin(), x.end()));
  writeNpy(folder / "l4.npy", "<i4", {10}, std::vector<int32_t>{-7, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  Result<BatchSource> source = open("x8.npy", "l4.npy");
  ASSERT_TRUE(succeeded(source));
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_NE(notes[0].find("x8.npy' is converted from F64 to F32"), std::string::npos);
  int64_t rows = 0;
  ASSERT_TRUE(succeeded(source->load(0, arena, rows)));
  EXPECT_EQ(xAt(11), 11);
  EXPECT_EQ(labelAt(0), -7);
  std::vector<double> large(x.begin(), x.end());
  large[4] = -1e39;
  writeNpy(folder / "x8.npy", "<f8", {10, 3}, large);
  EXPECT_TRUE(failsWith(open("x8.npy", "l4.npy")->load(0, arena, rows),
                        "x8.npy' has the value -1e+39 in row 1, element 1, which is too large for F32"));
  large[4] = -std::numeric_limits<double>::infinity(); // as it is written
  writeNpy(folder / "x8.npy", "<f8", {10, 3}, large);
  EXPECT_TRUE(succeeded(open("x8.npy", "l4.npy")->load(0, arena, rows)));
  writeNpy(folder / "u1.npy", "|u1", {10, 3}, std::vector<uint8_t>(30));
  EXPECT_TRUE(
      failsWith(open("u1.npy"), "--data x: expected F32 [N, 3], but '" + (folder / "u1.npy") + "' has U8 [10, 3]"));
  EXPECT_TRUE(failsWith(open("x.npy", "x.npy"), "--data label: expected I64 [N]"));
}

TEST_F(BatchSourceTest, SaysWhichFileDoesNotFit) {
  writeNpy(folder / "wide.npy", "<f4", {10, 4}, std::vector<float>(40));
  writeNpy(folder / "deep.npy", "<f4", {10, 3, 1}, std::vector<float>(30));
  writeNpy(folder / "long.npy", "<f4", {11, 3}, std::vector<float>(33));
  writeNpy(folder / "none.npy", "<f4", {0, 3}, std::vector<float>());
  writeNpy(folder / "no-label.npy", "<i8", {0}, std::vector<int64_t>());
  EXPECT_TRUE(failsWith(open("wide.npy"), "has F32 [10, 4]"));
  EXPECT_TRUE(failsWith(open("deep.npy"), "has F32 [10, 3, 1]"));
  EXPECT_TRUE(failsWith(open("long.npy"), "label.npy' has 10 samples, but '" + (folder / "long.npy") + "' has 11"));
  EXPECT_TRUE(failsWith(open("none.npy", "no-label.npy"), "has no rows"));
  EXPECT_TRUE(failsWith(open("gone.npy"), "--data x: cannot open"));
  EXPECT_TRUE(failsWith(BatchSource::open(manifest, {{"x", folder / "x.npy"}}, "--eval", {}),
                        "no file for input 'label': give --eval label=FILE.npy with I64 [N]"));
  EXPECT_TRUE(failsWith(BatchSource::open(manifest, {{"imge", "a"}}, "--data", {}),
                        "--data imge=a: the model has no input 'imge'; there are: x, label"));
}

TEST_F(BatchSourceTest, RefusesValuesOutOfRange) {
  label[5] = 50;
  writeNpy(folder / "label.npy", "<i8", {10}, label);
  Result<BatchSource> source = open();
  ASSERT_TRUE(succeeded(source));
  int64_t rows = 0;
  EXPECT_TRUE(succeeded(source->load(0, arena, rows)));
  EXPECT_TRUE(failsWith(source->load(1, arena, rows), "has the value 50 in row 5, but input 'label' takes -50 to 49"));
  label[5] = -100; // the padding is a valid value, too
  writeNpy(folder / "label.npy", "<i8", {10}, label);
  EXPECT_TRUE(succeeded(open()->load(1, arena, rows)));
}

/// Inputs with several rows for each sample, and inputs without samples.
TEST_F(BatchSourceTest, OtherLeadingDimensions) {
  manifest.batch = 2;
  writeNpy(folder / "x2.npy", "<f4", {12, 3}, randomNumbers(36, 1));
  Result<BatchSource> pairs = open("x2.npy", "x.npy");
  EXPECT_FALSE(pairs.ok());
  writeNpy(folder / "l2.npy", "<i8", {12}, std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  pairs = open("x2.npy", "l2.npy");
  ASSERT_TRUE(succeeded(pairs));
  EXPECT_EQ(pairs->samples(), 6);
  pairs->shuffle(1, 1);
  int64_t rows = 0;
  ASSERT_TRUE(succeeded(pairs->load(0, arena, rows)));
  EXPECT_EQ(labelAt(0) % 2, 0);
  EXPECT_EQ(labelAt(1), labelAt(0) + 1);
  EXPECT_EQ(labelAt(3), labelAt(2) + 1);

  manifest.batch = 3; // 4 rows are no multiple of it
  manifest.inputs[1].shape = {3};
  manifest.inputs[1].bytes = 24;
  writeNpy(folder / "fixed.npy", "<f4", {4, 3}, std::vector<float>(12, 7));
  Result<BatchSource> fixed = open("fixed.npy", "label.npy");
  ASSERT_TRUE(succeeded(fixed));
  EXPECT_EQ(fixed->samples(), 10);
  ASSERT_TRUE(succeeded(fixed->load(3, arena, rows)));
  EXPECT_EQ(xAt(11), 7);
  EXPECT_EQ(rows, 1);
  EXPECT_TRUE(failsWith(open("x.npy", "label.npy"), "expected F32 [4, 3]"));
}

/// Rows of a file are numbered across microbatches; messages have the shape that users know.
TEST_F(BatchSourceTest, MicrobatchesAreConsecutiveRows) {
  Json json = Json::parse(fakeManifest);
  json["inputs"][0].update({{"shape", {2, 2, 3}}, {"microbatches", 2}});
  json["inputs"][1].update({{"shape", {2, 2}}, {"microbatches", 2}});
  manifest = *parseManifest(json.dump(), fakeArenaBytes);
  Result<BatchSource> source = open();
  ASSERT_TRUE(succeeded(source));
  int64_t rows = 0;
  ASSERT_TRUE(succeeded(source->load(1, arena, rows)));
  for (int64_t i = 0; i < 12; ++i)
    EXPECT_EQ(xAt(i), 12 + i);
  std::memset(arena, 0x55, 128);
  ASSERT_TRUE(succeeded(source->load(2, arena, rows)));
  EXPECT_EQ(rows, 2);
  for (int64_t i = 0; i < 4; ++i)
    EXPECT_EQ(labelAt(i), i < 2 ? 8 + i : -100);
  EXPECT_EQ(xAt(5), 29);
  EXPECT_EQ(xAt(6), 0);
  EXPECT_EQ(arena[96], 0x55);
  writeNpy(folder / "wide.npy", "<f4", {10, 4}, std::vector<float>(40));
  EXPECT_TRUE(failsWith(open("wide.npy"), "expected F32 [N, 3], but"));
  label[7] = 50;
  writeNpy(folder / "label.npy", "<i8", {10}, label);
  EXPECT_TRUE(failsWith(open()->load(1, arena, rows), "has the value 50 in row 7"));
}

/// A batch of 16 MiB, of which several threads copy rows, to places that are in no arena.
TEST(LargeBatchTest, HasTheRowsOfTheOrderAndTheFirstError) {
  constexpr int64_t samples = 96, batch = 64, width = 65536;
  TemporaryFolder folder;
  auto write = [&](const std::set<int64_t> &wrong) {
    std::vector<int32_t> values;
    for (int64_t i = 0; i < samples * width; ++i)
      values.push_back(wrong.contains(i / width) && i % width == 7 ? -1 : static_cast<int32_t>(i));
    writeNpy(folder / "x.npy", "<i4", {samples, width}, values);
  };
  write({});
  Result<Manifest> manifest = parseManifest(concat(R"({"abi": 7, "batch": )", batch, R"(, "inputs": [
    {"name": "x", "dtype": "I32", "shape": [)", batch, ", ", width, R"(], "offset": 0, "range": [0, )", samples * width, R"(]}],
    "state": [], "scalars": [], "results": []})"), batch * width * 4);
  ASSERT_TRUE(succeeded(manifest));
  auto open = [&] { return BatchSource::open(*manifest, {{"x", folder / "x.npy"}}, "--data", {}); };
  int before = divisi_team_size();
  divisi_team_set_size(4);
  Result<BatchSource> source = open();
  ASSERT_TRUE(succeeded(source));
  source->shuffle(3, 1);
  std::vector<uint32_t> order = permutation(3, 1, samples);
  std::vector<int32_t> found(batch * width);
  std::vector<char *> places = {reinterpret_cast<char *>(found.data())};
  int64_t rows = 0;
  for (int64_t index : {0, 1}) {
    ASSERT_TRUE(succeeded(source->load(index, places, rows)));
    EXPECT_EQ(rows, index == 0 ? 64 : 32);
    int64_t wrong = 0;
    for (int64_t i = 0; i < batch * width; ++i) {
      int64_t row = index * batch + i / width;
      wrong += found[i] != (row < samples ? order[row] * width + i % width : 0);
    }
    EXPECT_EQ(wrong, 0);
  }
  write({61, 22, 40});
  EXPECT_TRUE(failsWith(open()->load(0, places, rows), "has the value -1 in row 22"));
  divisi_team_set_size(before);
}

TEST(ShuffleTest, IsAPermutationThatDependsOnSeedAndEpoch) {
  for (uint64_t count : {0, 1, 2, 3, 10, 1000}) {
    auto order = permutation(1, 2, count);
    EXPECT_EQ(order, permutation(1, 2, count));
    auto sorted = order;
    std::sort(sorted.begin(), sorted.end());
    std::vector<uint32_t> all(count);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(sorted, all);
    if (count > 9) {
      EXPECT_NE(order, permutation(1, 3, count));
      EXPECT_NE(order, permutation(2, 2, count));
      EXPECT_NE(order, all);
    }
  }
}

/// These numbers must never change: a checkpoint of an older program would resume with other data.
TEST(ShuffleTest, IsFixed) {
  EXPECT_EQ(permutation(0, 0, 8), (std::vector<uint32_t>{4, 3, 7, 6, 1, 2, 5, 0}));
  EXPECT_EQ(permutation(42, 7, 8), (std::vector<uint32_t>{4, 2, 7, 3, 1, 0, 6, 5}));
}

/// Each of the 24 orders of four is about as frequent as the others.
TEST(ShuffleTest, IsUniform) {
  std::map<std::vector<uint32_t>, int> counts;
  constexpr int draws = 24000;
  for (int seed = 0; seed < draws; ++seed)
    counts[permutation(static_cast<uint64_t>(seed), 0, 4)] += 1;
  ASSERT_EQ(counts.size(), 24u);
  double chi = 0;
  for (const auto &[order, n] : counts)
    chi += (n - draws / 24.0) * (n - draws / 24.0) / (draws / 24.0);
  EXPECT_LT(chi, 49.7); // exceeded by chance once in a thousand
}

/// On a mesh of 2 x 2: two rows for each sample, sharded over all ranks; a matrix sharded along both axes; and a
/// constant sharded by columns. Every element is its own index in its file.
TEST(BatchSourceRanksTest, EachRankLoadsItsPiece) {
  TemporaryFolder folder;
  auto count = [](size_t n) {
    std::vector<float> values(n);
    std::iota(values.begin(), values.end(), 0.0f);
    return values;
  };
  writeNpy(folder / "tokens.npy", "<f4", {12, 1}, count(12));
  writeNpy(folder / "x.npy", "<f4", {6, 6}, count(36));
  writeNpy(folder / "table.npy", "<f4", {3, 4}, count(12));
  Result<Manifest> manifest = parseManifest(R"({"abi": 7, "batch": 4,
    "mesh": [{"name": "data", "size": 2}, {"name": "model", "size": 2}], "inputs": [
    {"name": "tokens", "dtype": "F32", "shape": [2, 1], "global_shape": [8, 1], "split": [[0, 1], []], "offset": 0,
     "padding": -7},
    {"name": "x", "dtype": "F32", "shape": [2, 3], "global_shape": [4, 6], "split": [[0], [1]], "offset": 64},
    {"name": "table", "dtype": "F32", "shape": [3, 2], "global_shape": [3, 4], "split": [[], [1]], "offset": 128}],
    "state": [], "scalars": [], "results": []})",
                                            256);
  ASSERT_TRUE(succeeded(manifest));
  for (int64_t rank = 0; rank < 4; ++rank) {
    manifest->rank = rank;
    Result<BatchSource> source = BatchSource::open(
        *manifest, {{"tokens", folder / "tokens.npy"}, {"x", folder / "x.npy"}, {"table", folder / "table.npy"}},
        "--eval", {});
    ASSERT_TRUE(succeeded(source));
    EXPECT_EQ(source->allBatches(), 2);
    for (int64_t batch : {0, 1}) { // the second has two samples of four
      alignas(64) char arena[256] = {};
      int64_t rows = 0;
      ASSERT_TRUE(succeeded(source->load(batch, arena, rows)));
      EXPECT_EQ(rows, batch == 0 ? 4 : 2);
      auto at = [&](int64_t offset, int64_t i) { return readNumber(arena + offset + 4 * i, DataType::F32); };
      for (int64_t i = 0; i < 2; ++i)
        EXPECT_EQ(at(0, i), rank < rows ? 8 * batch + 2 * rank + i : -7) << rank;
      for (int64_t r = 0; r < 2; ++r)
        for (int64_t c = 0; c < 3; ++c) {
          int64_t row = rank / 2 * 2 + r;
          EXPECT_EQ(at(64, 3 * r + c), row < rows ? (4 * batch + row) * 6 + rank % 2 * 3 + c : 0) << rank;
        }
      for (int64_t r = 0; r < 3; ++r)
        for (int64_t c = 0; c < 2; ++c)
          EXPECT_EQ(at(128, 2 * r + c), 4 * r + rank % 2 * 2 + c) << rank;
    }
  }
}

/// A pipeline of 2 x 2 ranks: microbatches of 3 samples of two rows each, padded to 8 rows to divide, only on the first
/// stage; a matrix of which each rank has some columns on the second; and the rows of the batch by microbatches over
/// the ranks of a stage.
TEST(BatchSourceRanksTest, EachStageLoadsItsMicrobatches) {
  TemporaryFolder folder;
  std::vector<float> values(80);
  std::iota(values.begin(), values.end(), 0.0f);
  values.resize(20);
  writeNpy(folder / "tokens.npy", "<f4", {20}, values);
  values.resize(40);
  std::iota(values.begin(), values.end(), 0.0f);
  writeNpy(folder / "x.npy", "<f4", {10, 4}, values);
  values.resize(10);
  writeNpy(folder / "y.npy", "<f4", {10}, values);
  Result<Manifest> manifest = parseManifest(R"({"abi": 7, "batch": 6,
    "mesh": [{"name": "stage", "size": 2}, {"name": "data", "size": 2}], "inputs": [
    {"name": "tokens", "dtype": "F32", "shape": [2, 4], "global_shape": [2, 6], "padded_shape": [2, 8], "split": [[], [1]],
     "offset": 0, "microbatches": 2, "stage": 0, "padding": -7},
    {"name": "x", "dtype": "F32", "shape": [2, 3, 2], "global_shape": [2, 3, 4], "split": [[], [], [1]], "offset": 0,
     "microbatches": 2, "stage": 1},
    {"name": "y", "dtype": "F32", "shape": [1, 3], "global_shape": [2, 3], "split": [[1], []], "offset": 64,
     "microbatches": 2, "stage": 1, "padding": -9},
    {"name": "y", "dtype": "F32", "shape": [2, 3], "offset": 128, "microbatches": 2, "stage": 0, "padding": -9}],
    "state": [], "scalars": [], "results": []})",
                                            256);
  ASSERT_TRUE(succeeded(manifest));
  for (int64_t rank = 0; rank < 4; ++rank) {
    Manifest local = *manifest;
    local.localize(rank);
    Result<BatchSource> source = BatchSource::open(
        local, {{"tokens", folder / "tokens.npy"}, {"x", folder / "x.npy"}, {"y", folder / "y.npy"}}, "--eval", {});
    ASSERT_TRUE(succeeded(source));
    EXPECT_EQ(source->allBatches(), 2);
    for (int64_t batch : {0, 1}) { // the second has four samples of six
      alignas(64) char arena[256];
      std::memset(arena, 0x55, sizeof(arena));
      float untouched = 0;
      std::memcpy(&untouched, arena, 4);
      int64_t rows = 0, data = rank % 2;
      ASSERT_TRUE(succeeded(source->load(batch, arena, rows)));
      EXPECT_EQ(rows, batch == 0 ? 6 : 4);
      auto at = [&](int64_t offset, int64_t i) { return readNumber(arena + offset + 4 * i, DataType::F32); };
      if (rank < 2) {
        for (int64_t m = 0; m < 2; ++m)
          for (int64_t r = 0; r < 4; ++r) {
            int64_t within = 4 * data + r, row = 6 * m + within;
            EXPECT_EQ(at(0, 4 * m + r), within < 6 && row / 2 < rows ? 12 * batch + row : -7) << rank << " " << row;
          }
        for (int64_t row = 0; row < 6; ++row)
          EXPECT_EQ(at(128, row), row < rows ? 6 * batch + row : -9);
        EXPECT_EQ(at(64, 0), untouched);
      } else {
        for (int64_t row = 0; row < 6; ++row)
          for (int64_t c = 0; c < 2; ++c)
            EXPECT_EQ(at(0, 2 * row + c), row < rows ? (6 * batch + row) * 4 + 2 * data + c : 0) << rank << " " << row;
        for (int64_t r = 0; r < 3; ++r)
          EXPECT_EQ(at(64, r), 3 * data + r < rows ? 6 * batch + 3 * data + r : -9);
        EXPECT_EQ(at(128, 0), untouched);
      }
    }
  }
}
} // namespace
