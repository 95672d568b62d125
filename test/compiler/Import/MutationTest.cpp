#include "ModelMaker.h"
#include "Mutate.h"

#include <random>

using namespace divisi::compiler;

/// A model with many kinds of fields: attributes, constants, a function, a branch, sequences, windows, indices.
static ModelMaker varied() {
  ModelMaker m;
  m.input("image", {2, 3, 8, 8})
      .input("label", {2}, onnx::TensorProto::INT64)
      .input("ids", {2, 4}, onnx::TensorProto::INT64);
  m.weight("conv.weight", {4, 3, 3, 3}).weight("fc.weight", {36, 5}).weight("table", {7, 5}).weight("one", {5});
  m.integers("axis", {1}).integers("shape", {2, -1}).integers("starts", {0}).integers("ends", {3});
  m.integers("sizes", {1, 3});
  auto &conv = m.node("Conv", {"image", "conv.weight"}, {"c"}, "conv");
  setIntegers(conv, "kernel_shape", {3, 3});
  setIntegers(conv, "pads", {1, 1, 0, 0});
  setIntegers(conv, "strides", {1, 1});
  auto &pool = m.node("MaxPool", {"c"}, {"p"}, "pool");
  setIntegers(pool, "kernel_shape", {3, 3});
  setIntegers(pool, "strides", {2, 2});
  m.node("Reshape", {"p", "shape"}, {"flat"}, "flatten");
  m.node("MatMul", {"flat", "fc.weight"}, {"h"}, "fc");
  m.node("Gather", {"table", "ids"}, {"e"}, "embed");
  m.node("Slice", {"e", "starts", "ends", "axis"}, {"cut"}, "cut");
  setInteger(m.node("ReduceMean", {"cut"}, {"pooled"}, "mean"), "keepdims", 0);
  setText(m.node("Einsum", {"h", "one"}, {"dots"}, "einsum"), "equation", "bi,i->bi");
  m.node("Add", {"dots", "pooled"}, {"sum"}, "add");
  m.node("LayerNormalization", {"sum", "one", "one"}, {"logits"}, "norm");
  setInteger(m.node("SplitToSequence", {"e", "sizes"}, {"parts"}, "split"), "axis", 1);
  m.node("SoftmaxCrossEntropyLoss", {"logits", "label"}, {"loss"}, "criterion");
  m.output("loss").output("logits");
  return m;
}

class MutationTest : public ImportTest {
protected:
  /// An import may succeed or fail with exactly one diagnostic.
  void tryBytes(const std::string &bytes) {
    bool failed = mlir::failed(importBytes(bytes));
    EXPECT_EQ(errors.size(), failed ? 1u : 0u);
    failures += failed;
  }
  int failures = 0;
};

TEST_F(MutationTest, theModelItselfIsFine) { text(varied()); }

TEST_F(MutationTest, truncations) {
  std::string bytes = varied().model.SerializePartialAsString();
  for (size_t size = 0; size < bytes.size(); size += 1 + bytes.size() / 400)
    tryBytes(bytes.substr(0, size));
  EXPECT_GT(failures, 300);
}

TEST_F(MutationTest, bitFlips) {
  std::string bytes = varied().model.SerializePartialAsString();
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string mutated = bytes;
    for (int flips = 1 + i % 4; flips > 0; --flips)
      mutated[random() % mutated.size()] ^= char(1 << random() % 8);
    tryBytes(mutated);
  }
}

TEST_F(MutationTest, damagedFields) {
  Mutator mutator(2);
  for (int i = 0; i < 2000; ++i) {
    onnx::ModelProto model = varied().model;
    for (int count = 1 + i % 3; count > 0; --count)
      mutator.mutate(model);
    options.forwardOnly = i % 2;
    tryBytes(model.SerializePartialAsString());
  }
}
