#include "ModelMaker.h"

using namespace divisi::compiler;

// The operations that operators become. ONNX's node tests (test/onnx) compare their numbers.

class OperatorTest : public ImportTest {
protected:
  OperatorTest() { options.forwardOnly = true; }
};

TEST_F(OperatorTest, broadcastingIsExplicit) {
  ModelMaker m;
  m.input("a", {2, 1, 4}).input("b", {3, 1}).output("y");
  m.node("Add", {"a", "b"}, {"y"});
  std::string ir = text(m);
  EXPECT_HAS(ir, "graph.broadcast %arg0 {dims = array<i64: 0, 1, 2>} : (tensor<2x1x4xf32>) -> tensor<2x3x4xf32>");
  EXPECT_HAS(ir, "graph.broadcast %arg1 {dims = array<i64: 1, 2>} : (tensor<3x1xf32>) -> tensor<2x3x4xf32>");
}
TEST_F(OperatorTest, matrixOnTheRightTakesRows) {
  ModelMaker m;
  m.input("a", {2, 5, 4}).input("b", {4, 3}).output("y");
  m.node("MatMul", {"a", "b"}, {"y"});
  EXPECT_HAS(text(m), "(tensor<10x4xf32>, tensor<4x3xf32>) -> tensor<10x3xf32>");
}
TEST_F(OperatorTest, negativeIndicesAreNormalized) {
  ModelMaker m;
  m.input("x", {5, 2}).input("i", {3}, onnx::TensorProto::INT64).output("y");
  m.node("Gather", {"x", "i"}, {"y"});
  EXPECT_HAS(text(m), "graph.select");
  ModelMaker constant;
  constant.input("x", {5, 2}).integers("i", {-1, 0}).output("y");
  constant.node("Gather", {"x", "i"}, {"y"});
  std::string ir = text(constant);
  EXPECT_HAS(ir, "dense<[4, 0]>");
  EXPECT_LACKS(ir, "graph.select");
}
TEST_F(OperatorTest, indexOutOfRange) {
  ModelMaker m;
  m.input("x", {5, 2}).integers("i", {5}).output("y");
  m.node("Gather", {"x", "i"}, {"y"}, "look");
  EXPECT_EQ(failure(m), "node 'look' (Gather): index 5 in 'i' is out of range: it takes -5 to 4");
}
TEST_F(OperatorTest, aWindowOfFramesIsAVector) {
  ModelMaker m;
  m.input("x", {1, 8, 1}).input("window", {}).integers("step", {2}).output("y");
  m.node("STFT", {"x", "step", "window"}, {"y"}, "frames");
  EXPECT_HAS(failure(m), "node 'frames' (STFT): its window");
}
TEST_F(OperatorTest, eachRegionHasAnImage) {
  ModelMaker m;
  m.input("x", {1, 1, 10, 10}).input("regions", {3, 4}).input("images", {}, onnx::TensorProto::INT64).output("y");
  setInteger(m.node("RoiAlign", {"x", "regions", "images"}, {"y"}, "align"), "sampling_ratio", 2);
  EXPECT_HAS(failure(m), "node 'align' (RoiAlign): its batch_indices scalar do not name the image of each of 3 regions");
}
TEST_F(OperatorTest, regionsOfImagesAreFinite) {
  for (float end : {NAN, 1e30f}) {
    ModelMaker m;
    m.input("x", {1, 8}).integers("sizes", {1, 4}).output("y");
    setFloats(m.node("Constant", {}, {"roi"}), "value_floats", {0, 0, 1, end});
    auto &resize = m.node("Resize", {"x", "roi", "", "sizes"}, {"y"}, "crop");
    setText(resize, "mode", "linear");
    setText(resize, "coordinate_transformation_mode", "tf_crop_and_resize");
    EXPECT_HAS(failure(m), "node 'crop' (Resize): roi has an entry");
  }
}
TEST_F(OperatorTest, nanIsZeroAsAnInteger) {
  ModelMaker m;
  m.output("y");
  setFloats(m.node("Constant", {}, {"size"}), "value_floats", {NAN});
  m.node("ConstantOfShape", {"size"}, {"y"}); // which takes integers
  EXPECT_HAS(text(m), "tensor<0xf32>");
}
TEST_F(OperatorTest, rangesOfFloatsMayEndWithIntegers) {
  ModelMaker m;
  m.output("y");
  auto *half = m.node("Constant", {}, {"start"}).add_attribute();
  half->set_name("value_float");
  half->set_type(onnx::AttributeProto::FLOAT);
  half->set_f(0.5);
  m.integers("limit", {4}).integers("delta", {1});
  m.node("Range", {"start", "limit", "delta"}, {"y"});
  EXPECT_HAS(text(m), "tensor<4xf32>");
}
TEST_F(OperatorTest, sumsOfKnownIntegersAreShapes) {
  ModelMaker m;
  m.input("x", {6, 2}).integers("times", {1, 2, 3}).integers("axis", {0}).integers("last", {-1}).output("y");
  setInteger(m.node("CumSum", {"times", "axis"}, {"sums"}), "reverse", 1); // 6 5 3
  m.node("Gather", {"sums", "axis"}, {"all"});
  m.node("ConstantOfShape", {"all"}, {"zeros"});
  m.node("Unsqueeze", {"zeros", "last"}, {"column"});
  m.node("Add", {"x", "column"}, {"y"});
  EXPECT_HAS(text(m), "tensor<6x2xf32>");
}
TEST_F(OperatorTest, sequencesAreLists) {
  ModelMaker m;
  m.input("x", {2, 6}).integers("split", {2, 4}).integers("last", {-1}).output("y");
  setInteger(m.node("SplitToSequence", {"x", "split"}, {"s"}), "axis", 1);
  m.node("SequenceAt", {"s", "last"}, {"y"});
  EXPECT_HAS(text(m), "graph.slice %arg0 {starts = array<i64: 0, 2>");
}
TEST_F(OperatorTest, aTensorHasAsManySlicesAsCanBeWrittenOneByOne) {
  auto split = [](bool each, int64_t size) {
    ModelMaker m;
    m.input("x", {size, 2}).integers("first", {0}).output("y");
    setInteger(m.node("Constant", {}, {"one"}), "value_int", 1); // a scalar
    m.node("SplitToSequence", {"x", each ? "one" : ""}, {"s"}, "pieces");
    m.node("SplitToSequence", {"x", each ? "one" : ""}, {"t"}, "more");
    m.node("SequenceAt", {"s", "first"}, {"y"});
    return m;
  };
  for (bool each : {true, false}) {
    EXPECT_HAS(text(split(each, 100)), "graph.slice %arg0");
    EXPECT_HAS(failure(split(each, 40000)), "node 'more' (SplitToSequence): the slices that are written one by one");
    EXPECT_HAS(failure(split(each, std::numeric_limits<int32_t>::max())), "node 'pieces' (SplitToSequence): the slices");
  }
}
TEST_F(OperatorTest, manyOperandsAreConcatenatedInGroups) {
  ModelMaker m;
  m.input("x", {2}).output("y");
  setInteger(m.node("Concat", std::vector<std::string>(130, "x"), {"y"}), "axis", 0);
  std::string module = text(m);
  EXPECT_EQ(llvm::StringRef(module).count("graph.concat"), 4u); // of 44, 44, 42 operands, and of these
  EXPECT_HAS(module, "tensor<260xf32>");
}
TEST_F(OperatorTest, boundsOfLargeTensorsAreNumbers) {
  ModelMaker m;
  m.input("x", {4, std::numeric_limits<int32_t>::max()}).output("y");
  for (auto [name, value] : {std::pair("low", 0.f), {"high", 6.f}})
    attribute(m.node("Constant", {}, {name}), "value_float", onnx::AttributeProto::FLOAT).set_f(value);
  m.node("Clip", {"x", "low", "high"}, {"y"});
  EXPECT_HAS(text(m), "graph.compare le %arg0"); // as relu6
}
TEST_F(OperatorTest, logarithmsOfSigmoidsAreSoftplus) {
  ModelMaker m;
  m.input("x", {2}).output("y");
  m.node("Sigmoid", {"x"}, {"s"});
  setFloats(m.node("Constant", {}, {"one"}), "value_floats", {1});
  m.node("Sub", {"one", "s"}, {"not"});
  m.node("Log", {"not"}, {"l"});
  m.node("Log", {"s"}, {"k"});
  m.node("Add", {"l", "k"}, {"y"});
  EXPECT_HAS(text(m), "graph.softplus %arg0");
  EXPECT_LACKS(text(m), "graph.log");
}
TEST_F(OperatorTest, logarithmsOfSumsOfExponentialsDoNotOverflow) {
  ModelMaker m;
  m.input("a", {2, 3}).input("b", {3}).output("y");
  m.node("Exp", {"a"}, {"p"});
  m.node("Exp", {"b"}, {"q"});
  m.node("Add", {"p", "q"}, {"sum"});
  m.node("Log", {"sum"}, {"y"});
  EXPECT_HAS(text(m), "graph.max %arg0");
  EXPECT_LACKS(text(m), "graph.exp");
}
TEST_F(OperatorTest, rootsOfSumsOfPowersHaveNoGradientAtZero) { // where PyTorch's norms and deviations have none
  for (bool isNorm : {true, false}) {
    ModelMaker m;
    m.input("x", {2, 3}).output("y");
    setFloats(m.node("Constant", {}, {"root"}), "value_floats", {isNorm ? 1.f / 3 : 0.5f});
    if (isNorm) {
      setFloats(m.node("Constant", {}, {"cube"}), "value_floats", {3});
      m.node("Abs", {"x"}, {"a"});
      m.node("Pow", {"a", "cube"}, {"p"});
    } else {
      m.node("Mul", {"x", "x"}, {"p"});
    }
    m.node("ReduceMean", {"p"}, {"sum"});
    m.node("Pow", {"sum", "root"}, {"y"});
    EXPECT_HAS(text(m), "graph.select");
  }
  for (bool isProduct : {true, false}) { // no norms
    ModelMaker m;
    m.input("x", {2, 3}).input("z", {2, 3}).output("y");
    m.node("Abs", {"x"}, {"a"});
    m.node(isProduct ? "Mul" : "Add", {"a", "z"}, {"p"});
    m.node("ReduceSum", {"p"}, {"sum"});
    m.node("Sqrt", {"sum"}, {"y"});
    EXPECT_LACKS(text(m), "graph.select");
  }
  ModelMaker m; // of integers
  m.input("x", {2, 3}, onnx::TensorProto::INT64).output("y", {}, onnx::TensorProto::FLOAT);
  setFloats(m.node("Constant", {}, {"root"}), "value_floats", {0.5f});
  m.node("ReduceSumSquare", {"x"}, {"sum"});
  m.node("Pow", {"sum", "root"}, {"p"});
  setInteger(m.node("Cast", {"p"}, {"y"}), "to", onnx::TensorProto::FLOAT);
  EXPECT_LACKS(text(m), "graph.sqrt");
}
TEST_F(OperatorTest, knownPowersAreProducts) {
  ModelMaker m;
  m.input("x", {2}).integers("two", {2}).output("y");
  m.node("Pow", {"x", "two"}, {"y"});
  EXPECT_HAS(text(m), "graph.mul %arg0, %arg0");
}
TEST_F(OperatorTest, einsumIsAMatrixProduct) {
  ModelMaker m;
  m.input("a", {2, 3, 4}).input("b", {2, 5, 4}).output("y");
  setText(m.node("Einsum", {"a", "b"}, {"y"}), "equation", "bij,bkj->bik");
  EXPECT_HAS(text(m), "graph.matmul %arg0, %arg1 {transpose_rhs}");
}
TEST_F(OperatorTest, einsumWithoutAnArrowIsATrace) { // a label that occurs twice is not in the output
  ModelMaker m;
  m.input("a", {3, 3}).output("y");
  setText(m.node("Einsum", {"a"}, {"y"}), "equation", "ii");
  EXPECT_HAS(text(m), "-> (tensor<f32>");
}
TEST_F(OperatorTest, exponentialUnitsOfNanAreNan) { // which is neither greater nor less than zero
  for (const char *op : {"Elu", "Selu", "Celu"}) {
    ModelMaker m;
    m.input("x", {3}).output("y");
    m.node(op, {"x"}, {"y"});
    EXPECT_LACKS(text(m), "compare le");
  }
}
TEST_F(OperatorTest, namesAreUtf8) {
  ModelMaker input, weight, output;
  input.input("\xfe", {3}).output("y").node("Relu", {"\xfe"}, {"y"});
  EXPECT_HAS(failure(input), "is not UTF-8");
  weight.input("x", {3}).weight("\xff", {3}).output("y").node("Add", {"x", "\xff"}, {"y"});
  EXPECT_HAS(failure(weight), "is not UTF-8");
  output.input("x", {3}).output("\xff").node("Relu", {"x"}, {"\xff"});
  EXPECT_HAS(failure(output), "is not UTF-8");
}
TEST_F(OperatorTest, transposedFilterIsTheKernel) {
  ModelMaker m;
  m.input("x", {1, 2, 4, 4}).weight("w", {2, 3, 3, 3}).output("y");
  setIntegers(m.node("ConvTranspose", {"x", "w"}, {"y"}, "up"), "kernel_shape", {5, 5});
  EXPECT_HAS(failure(m), "node 'up' (ConvTranspose): kernel_shape 5x5 is not the filter's 3x3");
}
TEST_F(OperatorTest, badEquations) {
  for (const char *equation : {"", "ij", "ij,jk,kl->il", "i1,jk->ik", "ij,jk->iz", "ijk,jk->ik", "ij,jk->ii", "->"}) {
    ModelMaker m;
    m.input("a", {2, 3}).input("b", {3, 4}).output("y");
    setText(m.node("Einsum", {"a", "b"}, {"y"}, "e"), "equation", equation);
    EXPECT_HAS(failure(m), "node 'e' (Einsum): ");
  }
}
TEST_F(OperatorTest, ignoredLabelsAreOutOfRange) {
  ModelMaker m;
  m.input("x", {4, 3}).input("t", {4}, onnx::TensorProto::INT64).output("y");
  setInteger(m.node("SoftmaxCrossEntropyLoss", {"x", "t"}, {"y"}), "ignore_index", 2);
  std::string ir = text(m);
  EXPECT_HAS(ir, "graph.constant dense<-1>");
  EXPECT_HAS(ir, "graph.cross_entropy");
}
TEST_F(OperatorTest, logSoftmaxAndLikelihoodAreCrossEntropy) {
  ModelMaker m;
  m.input("x", {4, 3}).input("t", {4}, onnx::TensorProto::INT64).output("y");
  setInteger(m.node("LogSoftmax", {"x"}, {"p"}), "axis", 1);
  m.node("NegativeLogLikelihoodLoss", {"p", "t"}, {"y"});
  std::string ir = text(m);
  EXPECT_HAS(ir, "graph.cross_entropy %arg0");
  EXPECT_LACKS(ir, "graph.log_softmax");
}
TEST_F(OperatorTest, dropoutIsNumbered) {
  ModelMaker m;
  m.input("x", {4}).output("y");
  onnx::TensorProto yes;
  auto *flag = m.model.mutable_graph()->add_initializer();
  flag->set_name("yes");
  flag->set_data_type(onnx::TensorProto::BOOL);
  flag->add_int32_data(1);
  m.node("Dropout", {"x", "", "yes"}, {"h"});
  m.node("Dropout", {"h", "", "yes"}, {"y"});
  EXPECT_HAS(text(m), "stream = 1 : i64");
}
TEST_F(OperatorTest, windowsThatDoNotFit) {
  ModelMaker m;
  m.input("x", {1, 1, 4}).output("y");
  setIntegers(m.node("MaxPool", {"x"}, {"y"}, "pool"), "kernel_shape", {9});
  EXPECT_HAS(failure(m), "node 'pool' (MaxPool): its window of 9 is larger than dimension 2 of size 4");
}
/// Three sequences of `steps` steps of two numbers; four hidden units.
static ModelMaker lstm(int64_t steps) {
  ModelMaker m;
  m.input("x", {steps, 3, 2}).weight("w", {1, 16, 2}).weight("r", {1, 16, 4}).weight("b", {1, 32}).output("y");
  m.node("LSTM", {"x", "w", "r", "b"}, {"y"}, "rnn");
  return m;
}
TEST_F(OperatorTest, inputsOfAllStepsAreOneProduct) {
  std::string ir = text(lstm(5));
  EXPECT_HAS(ir, "(tensor<15x2xf32>, tensor<16x2xf32>) -> tensor<15x16xf32>");
  size_t products = 0;
  for (size_t at = ir.find("graph.matmul"); at != std::string::npos; at = ir.find("graph.matmul", at + 1))
    ++products;
  EXPECT_EQ(products, 1u + 5u); // and one of the state in each step
}
TEST_F(OperatorTest, recurrentLayersThatDoNotFit) {
  auto refused = [&](auto &&change, const std::string &message) {
    ModelMaker m = lstm(5);
    change(m, *m.model.mutable_graph()->mutable_node(0));
    EXPECT_EQ(failure(m), "node 'rnn' (LSTM): " + message);
  };
  using Node = onnx::NodeProto &;
  refused([](auto &, Node n) { setText(n, "direction", "up"); },
          "direction 'up' is neither forward, reverse nor bidirectional");
  refused([](auto &, Node n) { setText(n, "direction", "bidirectional"); }, "its weights 1x16x2 should be 2x16x2");
  refused([](auto &, Node n) { setInteger(n, "hidden_size", 5); }, "hidden_size is not the weights' 4");
  refused([](auto &m, Node n) { m.weight("h", {2, 3, 4}), n.add_input(""), n.add_input("h"); },
          "its initial state 2x3x4 should be 1x3x4");
  refused([](auto &m, Node n) { m.integers("lengths", {5, 6, 1}), n.add_input("lengths"); },
          "sequence length 6 in 'lengths' is out of range: it takes 0 to 5");
  refused([](auto &, Node n) { attribute(n, "activations", onnx::AttributeProto::STRINGS).add_strings("Tanh"); },
          "it names 1 activations, not 3");
  refused(
      [](auto &, Node n) {
        auto &names = attribute(n, "activations", onnx::AttributeProto::STRINGS);
        for (const char *name : {"Tanh", "Tanh", "Tan"})
          names.add_strings(name);
      },
      "activation 'Tan' is not known");
  EXPECT_EQ(failure(lstm(1 << 20)), "node 'rnn' (LSTM): its sequences have 1048576 steps; 1 to 4096 can be unrolled");
}
/// A mask that assignments to slices make is not made in each step.
TEST_F(OperatorTest, AssignmentsToConstantsAreFolded) {
  options.forwardOnly = false;
  ModelMaker m;
  m.input("x", {3, 4}).weight("w", {4, 4}).output("loss");
  m.integers("four", {4}).node("ConstantOfShape", {"four"}, {"zeros"});
  m.integers("columns", {1, 3}).integers("shape", {2, 1}).node("Reshape", {"columns", "shape"}, {"places"});
  m.integers("added", {5, 7});
  setInteger(m.node("Cast", {"added"}, {"updates"}), "to", onnx::TensorProto::FLOAT);
  m.node("ScatterND", {"zeros", "places", "updates"}, {"mask"});
  m.node("MatMul", {"x", "w"}, {"h"});
  m.node("Add", {"h", "mask"}, {"y"});
  setInteger(m.node("ReduceSum", {"y"}, {"loss"}), "keepdims", 0);
  std::string ir = text(m);
  EXPECT_LACKS(ir, "scatter");
  EXPECT_HAS(ir, "[0.000000e+00, 5.000000e+00, 0.000000e+00, 7.000000e+00]");
}
TEST_F(OperatorTest, listOfOperatorsIsSorted) {
  auto names = supportedOperators();
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_GT(names.size(), 150u);
}
