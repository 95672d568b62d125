// Gathers by indices that count: reshapes, slices, and gathers within the rows of each sample.
#include "ModelMaker.h"

using namespace divisi::compiler;
using onnx::TensorProto;

namespace {

/// A model whose activations "h" have this shape, and whose loss is a sum of "y".
class KnownIndicesTest : public ImportTest {
protected:
  void activations(const std::vector<int64_t> &shape) {
    std::vector<Dim> dims(shape.begin(), shape.end());
    m.input("x", dims).weight("w", {shape.back(), shape.back()}).output("loss");
    m.node("MatMul", {"x", "w"}, {"h"});
  }
  /// The constant `name` with these values and this shape.
  void table(const std::string &name, const std::vector<int64_t> &values, std::vector<int64_t> shape) {
    m.integers(name + "_values", values).integers(name + "_shape", std::move(shape));
    m.node("Reshape", {name + "_values", name + "_shape"}, {name});
  }
  std::string finish() {
    setInteger(m.node("ReduceSum", {"y"}, {"loss"}), "keepdims", 0);
    return text(m);
  }
  ModelMaker m;
};

TEST_F(KnownIndicesTest, AllPlacesInOrderAreAReshape) {
  activations({2, 3});
  table("flat", {-1}, {1});
  table("places", {0, 1, 2, 3, 4, 5}, {2, 3, 1});
  m.node("Reshape", {"h", "flat"}, {"f"});
  m.node("Gather", {"f", "places"}, {"y"});
  std::string ir = finish();
  EXPECT_LACKS(ir, "graph.gather");
  EXPECT_HAS(ir, "-> tensor<2x3x1xf32>");
}
TEST_F(KnownIndicesTest, ConsecutivePlacesAreASlice) {
  activations({4, 6});
  table("places", {-4, -3, -2}, {3}); // 2, 3, 4
  setInteger(m.node("Gather", {"h", "places"}, {"y"}), "axis", 1);
  std::string ir = finish();
  EXPECT_LACKS(ir, "graph.gather");
  EXPECT_HAS(ir, "starts = array<i64: 0, 2>");
}
TEST_F(KnownIndicesTest, PlacesInOtherOrdersAreGathered) {
  for (std::vector<int64_t> places : {std::vector<int64_t>{0, 2, 1}, {0, 0, 1}, {1, 2, 4}}) {
    m = ModelMaker();
    activations({4, 6});
    table("places", places, {3});
    setInteger(m.node("Gather", {"h", "places"}, {"y"}), "axis", 1);
    EXPECT_HAS(finish(), "graph.gather");
  }
}
TEST_F(KnownIndicesTest, SomeRowsOfATableAreGathered) {
  activations({4, 6});
  m.weight("t", {8, 6});
  table("places", {0, 1, 2, 3}, {4});
  m.node("Gather", {"t", "places"}, {"p"});
  m.node("Add", {"h", "p"}, {"y"});
  EXPECT_HAS(finish(), "(tensor<8x6xf32>, tensor<4xi64>) -> tensor<4x6xf32>");
}
TEST_F(KnownIndicesTest, APlaceOutOfRangeIsRefused) {
  activations({4, 6});
  table("places", {4, 5, 6}, {3});
  setInteger(m.node("Gather", {"h", "places"}, {"y"}, "look"), "axis", 1);
  setInteger(m.node("ReduceSum", {"y"}, {"loss"}), "keepdims", 0);
  EXPECT_EQ(failure(m), "node 'look' (Gather): index 6 in 'places_values' is out of range: it takes -6 to 5");
}
TEST_F(KnownIndicesTest, WindowsOfEachRowAreGatheredInIt) {
  activations({2, 4});
  table("flat", {-1}, {1});
  table("places", {0, 1, 1, 2, 2, 3, 4, 5, 5, 6, 6, 7}, {2, 3, 2});
  m.node("Reshape", {"h", "flat"}, {"f"});
  m.node("Gather", {"f", "places"}, {"y"});
  EXPECT_HAS(finish(), "(tensor<2x4xf32>, tensor<6xi64>) -> tensor<2x6xf32>");
}
TEST_F(KnownIndicesTest, WindowsAcrossRowsAreGatheredFromAll) {
  activations({2, 4});
  table("flat", {-1}, {1});
  table("places", {0, 1, 2, 3, 4, 3, 4, 5, 6, 7}, {2, 5});
  m.node("Reshape", {"h", "flat"}, {"f"});
  m.node("Gather", {"f", "places"}, {"y"});
  EXPECT_HAS(finish(), "(tensor<8xf32>, tensor<2x5xi64>)");
}

TEST_F(KnownIndicesTest, VectorsThatCountTheBatchKeepIt) {
  activations({4, 5, 6});
  m.input("at", {4}, TensorProto::INT64);
  table("count", {0, 1, 2, 3}, {4, 1});
  m.integers("last", {1});
  m.node("Unsqueeze", {"at", "last"}, {"positions"});
  setInteger(m.node("Concat", {"count", "positions"}, {"vectors"}), "axis", -1);
  m.node("GatherND", {"h", "vectors"}, {"y"});
  std::string ir = finish();
  EXPECT_HAS(ir, "{batch_dims = 1 : i64} : (tensor<4x5x6xf32>, tensor<4x1xi64>) -> tensor<4x6xf32>");
  EXPECT_HAS(ir, "graph.range = [-5, 5]"); // of the positions alone: the counter needs no check
  EXPECT_LACKS(ir, "graph.check");
}
TEST_F(KnownIndicesTest, VectorsThatCountOtherwiseReadAllRows) {
  for (std::vector<int64_t> count : {std::vector<int64_t>{0, 1, 3, 2}, {1, 2, 3, 0}, {0, 0, 0, 0}}) {
    m = ModelMaker();
    activations({4, 5, 6});
    m.input("at", {4}, TensorProto::INT64);
    table("count", count, {4, 1});
    m.integers("last", {1});
    m.node("Unsqueeze", {"at", "last"}, {"positions"});
    setInteger(m.node("Concat", {"count", "positions"}, {"vectors"}), "axis", -1);
    m.node("GatherND", {"h", "vectors"}, {"y"});
    EXPECT_HAS(finish(), "{batch_dims = 0 : i64} : (tensor<4x5x6xf32>, tensor<4x2xi64>)");
  }
}
TEST_F(KnownIndicesTest, ACounterBehindAnIndexIsGatheredAlongOneDimension) {
  activations({5, 4, 6});
  m.input("at", {4}, TensorProto::INT64);
  table("count", {0, 1, 2, 3}, {4, 1});
  m.integers("last", {1});
  m.node("Unsqueeze", {"at", "last"}, {"positions"});
  setInteger(m.node("Concat", {"positions", "count"}, {"vectors"}), "axis", -1);
  m.node("GatherND", {"h", "vectors"}, {"y"});
  EXPECT_HAS(finish(), "graph.gather_elements");
}
TEST_F(KnownIndicesTest, VectorsThatOnlyCountAreABroadcast) {
  activations({2, 3});
  table("vectors", {0, 0, 0, 1, 0, 2, 1, 0, 1, 1, 1, 2}, {2, 1, 3, 2});
  m.node("GatherND", {"h", "vectors"}, {"y"});
  std::string ir = finish();
  EXPECT_LACKS(ir, "graph.gather");
  EXPECT_HAS(ir, "-> tensor<2x1x3xf32>");
}
TEST_F(KnownIndicesTest, UpdatesOfEachSampleKeepTheBatch) {
  activations({4, 5, 6});
  m.input("at", {4}, TensorProto::INT64).input("u", {4, 6});
  table("count", {0, 1, 2, 3}, {4, 1});
  m.integers("last", {1});
  m.node("Unsqueeze", {"at", "last"}, {"positions"});
  setInteger(m.node("Concat", {"count", "positions"}, {"vectors"}), "axis", -1);
  m.node("ScatterND", {"h", "vectors", "u"}, {"y"});
  EXPECT_HAS(finish(), "{batch_dims = 1 : i64, combine = #graph<combine assign>}");
}

/// x[arange(4), index] as TorchScript writes it, with these starts of the rows of 5.
class FlattenedTest : public KnownIndicesTest {
protected:
  std::string flattened(const std::vector<int64_t> &starts) {
    m.integers("rows", {-1, 6}).integers("starts", starts);
    m.node("Reshape", {"h", "rows"}, {"f"});
    m.node("Add", {"index", "starts"}, {"places"});
    m.node("Gather", {"f", "places"}, {"y"}, "look");
    return finish();
  }
  /// With the index of the largest of `positions` scores.
  std::string largest(const std::vector<int64_t> &starts, int64_t positions) {
    m = ModelMaker();
    activations({4, 5, 6});
    m.input("scores", {4, positions});
    auto &most = m.node("ArgMax", {"scores"}, {"index"});
    setInteger(most, "axis", 1);
    setInteger(most, "keepdims", 0);
    return flattened(starts);
  }
  const std::string inRows = "{batch_dims = 1 : i64} : (tensor<4x5x6xf32>, tensor<4x1x1xi64>) -> tensor<4x1x6xf32>";
};

TEST_F(FlattenedTest, PositionsInEachRowKeepTheBatch) {
  std::string ir = largest({0, 5, 10, 15}, 5);
  EXPECT_HAS(ir, inRows);
  EXPECT_LACKS(ir, "graph.check");
}
TEST_F(FlattenedTest, PositionsThatMayReachOtherRowsReadAllRows) {
  EXPECT_LACKS(largest({0, 5, 10, 15}, 6), "batch_dims = 1");
  EXPECT_LACKS(largest({1, 6, 11, 16}, 5), "batch_dims = 1");
  EXPECT_LACKS(largest({0, 4, 8, 12}, 4), "batch_dims = 1");
}
TEST_F(FlattenedTest, AnInputIsCheckedToStayInItsRow) {
  activations({4, 5, 6});
  m.input("index", {4}, TensorProto::INT64);
  std::string ir = flattened({0, 5, 10, 15});
  EXPECT_HAS(ir, inRows);
  EXPECT_HAS(ir, "graph.range = [0, 5]");
  EXPECT_LACKS(ir, "graph.check");
}
TEST_F(FlattenedTest, WhatIsComputedIsCheckedToStayInItsRow) {
  activations({4, 5, 6});
  m.input("lengths", {4}, TensorProto::INT64).integers("one", {1});
  m.node("Sub", {"lengths", "one"}, {"index"});
  std::string ir = flattened({0, 5, 10, 15});
  EXPECT_HAS(ir, inRows);
  EXPECT_HAS(ir, "graph.check = {name = \"look\", range = [0, 5]}");
}
TEST_F(FlattenedTest, RowsThatWereNeverApartAreReadFromAll) {
  activations({20, 6});
  m.input("index", {4}, TensorProto::INT64).integers("starts", {0, 5, 10, 15});
  m.node("Add", {"index", "starts"}, {"places"});
  m.node("Gather", {"h", "places"}, {"y"});
  EXPECT_LACKS(finish(), "batch_dims = 1");
}
TEST_F(FlattenedTest, InferenceReadsWhatTheFileSays) {
  activations({4, 5, 6});
  m.input("index", {4}, TensorProto::INT64);
  options.forwardOnly = true;
  EXPECT_LACKS(flattened({0, 5, 10, 15}), "batch_dims = 1");
}

} // namespace
