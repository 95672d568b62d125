// Checks of indices: when a model is imported, when its inputs are read, or after a step.
#include "ModelMaker.h"

using namespace divisi::compiler;
using onnx::TensorProto;

namespace {

using IndicesTest = ImportTest;

/// A table of 7 rows, and a loss that depends on the rows that "y" selects.
ModelMaker tabled(const std::string &input, std::vector<Dim> shape, int type = TensorProto::INT64) {
  ModelMaker m;
  m.input(input, std::move(shape), type).weight("table", {7, 3}).output("loss");
  return m;
}
ModelMaker &summed(ModelMaker &m, const std::string &y = "y") {
  setInteger(m.node("ReduceSum", {y}, {"loss"}), "keepdims", 0);
  return m;
}
int count(const std::string &text, const std::string &part) {
  int found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

TEST_F(IndicesTest, AnInputIsCheckedWhenItIsRead) {
  ModelMaker m = tabled("i", {4}, TensorProto::INT32);
  setInteger(m.node("Cast", {"i"}, {"wide"}), "to", TensorProto::INT64);
  m.node("Gather", {"table", "wide"}, {"y"}, "look");
  std::string ir = text(summed(m));
  EXPECT_HAS(ir, "{graph.input = \"i\", graph.range = [-7, 7]}");
  EXPECT_LACKS(ir, "graph.check");
  EXPECT_HAS(ir, "graph.select"); // negative ones count from the end
}

TEST_F(IndicesTest, AnInputThatIsUsedTwiceFitsBoth) {
  ModelMaker m = tabled("i", {4});
  m.weight("small", {5, 3});
  m.node("Gather", {"table", "i"}, {"a"});
  m.node("Gather", {"small", "i"}, {"b"});
  m.node("Add", {"a", "b"}, {"y"});
  EXPECT_HAS(text(summed(m)), "graph.range = [-5, 5]");
}

TEST_F(IndicesTest, WhatIsComputedIsCheckedAfterTheStep) {
  ModelMaker m = tabled("i", {4});
  m.integers("one", {1});
  m.node("Add", {"i", "one"}, {"next"});
  m.node("Gather", {"table", "next"}, {"y"}, "look");
  std::string ir = text(summed(m));
  EXPECT_HAS(ir, "tensor<i64> {graph.check = {name = \"look\", range = [-7, 7]}}");
  EXPECT_LACKS(ir, "graph.range");
}

TEST_F(IndicesTest, WhatIsCastFromFloatsIsCheckedAfterTheStep) {
  ModelMaker m = tabled("x", {4}, TensorProto::FLOAT);
  setInteger(m.node("Cast", {"x"}, {"i"}), "to", TensorProto::INT64);
  m.node("Gather", {"table", "i"}, {"y"}, "look");
  std::string ir = text(summed(m));
  EXPECT_HAS(ir, "graph.check = {name = \"look\"");
  EXPECT_LACKS(ir, "graph.range");
}

TEST_F(IndicesTest, CastsThatLoseNumbersAreNotLookedThrough) {
  ModelMaker m = tabled("i", {4});
  setInteger(m.node("Cast", {"i"}, {"narrow"}), "to", TensorProto::INT32);
  m.node("Gather", {"table", "narrow"}, {"y"}, "look");
  std::string ir = text(summed(m));
  EXPECT_HAS(ir, "graph.check");
  EXPECT_LACKS(ir, "graph.range");
}

TEST_F(IndicesTest, PositionsNeedNoCheckWhereTheyFit) {
  for (int64_t size : {7, 8}) { // of the dimension of the positions; the table has 7 rows
    ModelMaker m = tabled("x", {4, size}, TensorProto::FLOAT);
    setInteger(m.node("ArgMax", {"x"}, {"i"}), "axis", 1);
    m.node("Gather", {"table", "i"}, {"y"}, "look");
    EXPECT_EQ(count(text(summed(m)), "graph.check"), size == 7 ? 0 : 1);
  }
}

TEST_F(IndicesTest, ValuesOfTopKAreNoPositions) {
  ModelMaker m = tabled("x", {4, 5});
  m.integers("k", {2});
  m.node("TopK", {"x", "k"}, {"values", "places"});
  m.node("Gather", {"table", "values"}, {"y"}, "look");
  EXPECT_HAS(text(summed(m)), "graph.check");
}

TEST_F(IndicesTest, EqualChecksAreOne) {
  ModelMaker m = tabled("i", {4});
  m.node("Add", {"i", "i"}, {"twice"});
  m.node("Gather", {"table", "twice"}, {"a"}, "first");
  m.node("Gather", {"table", "twice"}, {"b"}, "second");
  m.node("Add", {"a", "b"}, {"y"});
  std::string ir = text(summed(m));
  EXPECT_EQ(count(ir, "graph.check"), 1);
  EXPECT_HAS(ir, "name = \"first\"");
}

TEST_F(IndicesTest, EachComponentOfAVectorHasItsRange) {
  ModelMaker m = tabled("i", {4, 2});
  m.node("GatherND", {"table", "i"}, {"y"}, "look");
  std::string ir = text(summed(m));
  EXPECT_HAS(ir, "graph.check = {name = \"look\", range = [-7, 7]}");
  EXPECT_HAS(ir, "graph.check = {name = \"look (2)\", range = [-3, 3]}");
}

TEST_F(IndicesTest, KnownVectorsAreCheckedNow) {
  ModelMaker m = tabled("x", {4}, TensorProto::FLOAT);
  m.integers("i", {6, -4});
  m.node("GatherND", {"table", "i"}, {"y"}, "look");
  EXPECT_EQ(failure(summed(m)), "node 'look' (GatherND): index -4 in 'i' is out of range: it takes -3 to 2");
}

TEST_F(IndicesTest, ALargeTableOfIndicesIsCheckedNow) {
  ModelMaker m = tabled("x", {4}, TensorProto::FLOAT);
  std::vector<int64_t> many(10000, 6); // too many for a constant in the module
  many.back() = 7;
  m.integers("i", many);
  m.node("Gather", {"table", "i"}, {"y"}, "look");
  EXPECT_EQ(failure(summed(m)), "node 'look' (Gather): index 7 in 'i' is out of range: it takes -7 to 6");
}

TEST_F(IndicesTest, OneHotTakesAny) {
  ModelMaker m = tabled("i", {4});
  m.integers("depth", {7}).weight("values", {2});
  m.node("OneHot", {"i", "depth", "values"}, {"hot"});
  m.node("MatMul", {"hot", "table"}, {"y"});
  std::string ir = text(summed(m));
  EXPECT_LACKS(ir, "graph.range");
  EXPECT_LACKS(ir, "graph.check");
}

TEST_F(IndicesTest, LabelsThatAreCastAreChecked) {
  ModelMaker m;
  m.input("x", {4, 3}).input("t", {4}, TensorProto::FLOAT).weight("w", {3, 5}).output("loss");
  m.node("MatMul", {"x", "w"}, {"logits"});
  setInteger(m.node("Cast", {"t"}, {"label"}), "to", TensorProto::INT64);
  m.node("SoftmaxCrossEntropyLoss", {"logits", "label"}, {"loss"}, "criterion");
  std::string ir = text(m);
  EXPECT_HAS(ir, "graph.check = {name = \"criterion\", range = [0, 5]}");
  EXPECT_HAS(ir, "{graph.input = \"t\", graph.label, graph.padding = -100 : i64}"); // in missing rows of a last batch
}
} // namespace
