#include "ModelMaker.h"

using namespace divisi::compiler;

//===- Signature ----------------------------------------------------------===//

TEST_F(ImportTest, signatureOfAClassifier) {
  std::string ir = text(classifier());
  EXPECT_HAS(ir, "graph.model = \"net\"");
  EXPECT_HAS(ir, "func.func @loss(%arg0: tensor<5x3xf32> {graph.parameter = \"fc.weight\"}, "
                 "%arg1: tensor<5xf32> {graph.parameter = \"fc.bias\"}, %arg2: tensor<4x3xf32> {graph.input = \"x\"}, "
                 "%arg3: tensor<4xi64> {graph.input = \"label\", graph.label, graph.padding = -100 : i64, "
                 "graph.range = [0, 5]})");
  EXPECT_HAS(ir, "-> (tensor<f32> {graph.loss}, tensor<4x5xf32> {graph.output = \"logits\"})");
  EXPECT_HAS(ir, "graph.matmul %arg2, %arg0 {transpose_rhs}");
  EXPECT_TRUE(warnings.empty());
}

TEST_F(ImportTest, weightsAndSkeleton) {
  ModelMaker m = classifier();
  m.integers("unused", {1, 2});
  auto model = import(m);
  ASSERT_TRUE(mlir::succeeded(model)) << error();
  ASSERT_EQ(model->weights.size(), 2u);
  EXPECT_EQ(model->weights[0].name, "fc.weight");
  ASSERT_EQ(model->weights[0].bytes.size(), 60u);
  float second;
  std::memcpy(&second, model->weights[0].bytes.data() + 4, 4);
  EXPECT_EQ(second, 1);
  onnx::ModelProto skeleton;
  ASSERT_TRUE(skeleton.ParseFromString(model->skeleton));
  ASSERT_EQ(skeleton.graph().initializer_size(), 1);
  EXPECT_EQ(skeleton.graph().initializer(0).name(), "unused");
  EXPECT_EQ(skeleton.graph().node_size(), 2);
}

TEST_F(ImportTest, trainingInfoWithoutAnAlgorithmIsKept) {
  ModelMaker m = classifier();
  m.model.add_training_info()->mutable_algorithm()->set_name("step");
  auto model = import(m);
  ASSERT_TRUE(mlir::succeeded(model)) << error();
  EXPECT_TRUE(model->warnings.empty());
  EXPECT_FALSE(model->training);
  onnx::ModelProto skeleton;
  ASSERT_TRUE(skeleton.ParseFromString(model->skeleton));
  ASSERT_EQ(skeleton.training_info_size(), 1);
  EXPECT_EQ(skeleton.training_info(0).algorithm().name(), "step");
}

TEST_F(ImportTest, trainingInfoNamesTheLossAndWhatTrains) {
  ModelMaker m = classifier();
  m.model.mutable_graph()->mutable_node()->RemoveLast(); // the loss, which the algorithm computes of labels of its own
  m.model.mutable_graph()->mutable_input()->RemoveLast();
  m.model.mutable_graph()->clear_output();
  m.output("logits");
  auto *info = m.model.add_training_info();
  auto *algorithm = info->mutable_algorithm();
  auto add = [&](const char *type, std::vector<std::string> inputs, const char *output) -> onnx::NodeProto & {
    return ModelMaker::fill(*algorithm->add_node(), type, std::move(inputs), {output}, output);
  };
  ModelMaker::setType(*algorithm->add_input(), "y", {4}, onnx::TensorProto::INT64);
  ModelMaker::setType(*algorithm->add_input(), "rate", {}, onnx::TensorProto::FLOAT);
  add("SoftmaxCrossEntropyLoss", {"logits", "y"}, "loss");
  onnx::NodeProto &gradient = add("Gradient", {"fc.weight"}, "g");
  gradient.set_domain("ai.onnx.preview.training");
  attribute(gradient, "xs", onnx::AttributeProto::STRINGS).add_strings("fc.weight");
  setText(gradient, "y", "loss");
  add("Mul", {"g", "rate"}, "step");
  add("Sub", {"fc.weight", "step"}, "renewed");
  auto *binding = info->add_update_binding();
  binding->set_key("fc.weight");
  binding->set_value("renewed");
  auto model = import(m);
  ASSERT_TRUE(mlir::succeeded(model)) << error();
  std::string ir;
  llvm::raw_string_ostream(ir) << *model->module;
  EXPECT_HAS(ir, "graph.optimizer = {momentum = 0.000000e+00 : f64, nesterov = false, optimizer = \"sgd\"");
  EXPECT_HAS(ir, "tensor<5x3xf32> {graph.parameter = \"fc.weight\"}");
  EXPECT_HAS(ir, "tensor<5xf32> {graph.frozen, graph.parameter = \"fc.bias\"}");
  EXPECT_HAS(ir, "tensor<f32> {graph.loss}, tensor<4x5xf32> {graph.output = \"logits\"}");
  onnx::ModelProto skeleton;
  ASSERT_TRUE(skeleton.ParseFromString(model->skeleton)); // the model's graph is as it was
  EXPECT_EQ(skeleton.training_info_size(), 0);
  EXPECT_EQ(skeleton.graph().input_size(), 1);
  EXPECT_EQ(skeleton.graph().node_size(), 1);
  EXPECT_EQ(skeleton.graph().output_size(), 1);
  ASSERT_TRUE(model->training);
  onnx::TrainingInfoProto kept;
  ASSERT_TRUE(kept.ParseFromString(model->training->info));
  EXPECT_EQ(kept.algorithm().node_size(), 4);
  options.optimizerIsGiven = true;
  EXPECT_LACKS(text(m), "graph.optimizer");
}

TEST_F(ImportTest, aLossThatNoParameterReachesIsRefused) {
  ModelMaker m;
  m.input("x", {4, 3}).weight("fc.weight", {5, 3}).output("loss");
  setInteger(m.node("Gemm", {"x", "fc.weight"}, {"logits"}), "transB", 1);
  setInteger(m.node("ReduceMean", {"x"}, {"loss"}), "keepdims", 0);
  EXPECT_HAS(failure(m), "the loss depends on no parameter of the model, not on 'fc.weight' for example");
}

TEST_F(ImportTest, tiedParametersAreOneArgument) {
  ModelMaker m;
  m.input("ids", {2}, onnx::TensorProto::INT64).weight("wte", {7, 3}).output("loss");
  m.node("Gather", {"wte", "ids"}, {"h"}, "embed");
  setIntegers(m.node("Transpose", {"wte"}, {"t"}), "perm", {1, 0});
  m.node("MatMul", {"h", "t"}, {"logits"});
  setInteger(m.node("ReduceSum", {"logits"}, {"loss"}), "keepdims", 0);
  std::string ir = text(m);
  EXPECT_HAS(ir, "@loss(%arg0: tensor<7x3xf32> {graph.parameter = \"wte\"}, %arg1: tensor<2xi64> "
                 "{graph.input = \"ids\", graph.range = [-7, 7]})");
  EXPECT_HAS(ir, ", %arg0 {transpose_rhs} : (tensor<2x3xf32>"); // the transpose is a flag
}

TEST_F(ImportTest, forwardHasAllOutputsAndNoParameters) {
  options.forwardOnly = true;
  std::string ir = text(classifier());
  EXPECT_HAS(ir, "func.func @forward(%arg0: tensor<4x3xf32> {graph.input = \"x\"}, %arg1: tensor<4xi64> {graph.input = "
                 "\"label\"})");
  EXPECT_HAS(ir, "tensor<f32> {graph.output = \"loss\"}");
}

TEST_F(ImportTest, locationsAreNodeNames) {
  auto model = import(classifier());
  ASSERT_TRUE(mlir::succeeded(model));
  std::string ir;
  llvm::raw_string_ostream stream(ir);
  model->module->print(stream, mlir::OpPrintingFlags().enableDebugInfo(true, /*prettyForm=*/false));
  EXPECT_HAS(ir, "loc(\"fc/Gemm\")");
  EXPECT_HAS(ir, "loc(\"criterion\")");
}

//===- Dimensions ---------------------------------------------------------===//

TEST_F(ImportTest, symbolicDimensionIsBound) {
  options.dims["batch"] = 6;
  EXPECT_HAS(text(classifier("batch")), "tensor<6x3xf32> {graph.input = \"x\"}");
}
TEST_F(ImportTest, unboundDimensionNamesTheFlag) {
  EXPECT_EQ(failure(classifier("batch")),
            "input 'x' has the symbolic dimension 'batch', whose size is not known: add --dim batch=N");
}
TEST_F(ImportTest, unknownDimensionListsThose) {
  options.dims["seq"] = 6;
  EXPECT_EQ(failure(classifier("batch")),
            "--dim seq=6 names no dimension of the model's inputs; there are: batch");
}
TEST_F(ImportTest, unnamedDimensionIsExplained) {
  EXPECT_HAS(failure(classifier("")), "input 'x' does not say the size of dimension 0");
}
TEST_F(ImportTest, shapeArithmeticIsFolded) {
  ModelMaker m;
  m.input("x", {"batch", 6}).weight("w", {6, 6}).integers("zero", {0}).integers("tail", {2, 3}).output("loss");
  m.node("MatMul", {"x", "w"}, {"h"});
  m.node("Shape", {"h"}, {"s"});
  m.node("Gather", {"s", "zero"}, {"n"});
  setInteger(m.node("Concat", {"n", "tail"}, {"shape"}), "axis", 0);
  m.node("Reshape", {"h", "shape"}, {"y"}, "view");
  setInteger(m.node("ReduceSum", {"y"}, {"loss"}), "keepdims", 0);
  options.dims["batch"] = 5;
  std::string ir = text(m);
  EXPECT_HAS(ir, "tensor<5x2x3xf32>");
  EXPECT_LACKS(ir, "graph.concat");
}
TEST_F(ImportTest, contradictoryShapesNameTheNode) {
  ModelMaker m = classifier();
  m.model.mutable_graph()
      ->mutable_input(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(1)
      ->set_dim_value(4);
  EXPECT_HAS(failure(m), "node 'fc/Gemm' (Gemm): ");
}

//===- Losses -------------------------------------------------------------===//

static ModelMaker withoutLoss() {
  ModelMaker m;
  m.input("x", {4, 3}).weight("w", {3, 5}).output("y");
  m.node("MatMul", {"x", "w"}, {"y"}, "mm");
  return m;
}
TEST_F(ImportTest, missingLossNamesTheFlags) { EXPECT_HAS(failure(withoutLoss()), "--loss cross_entropy|mse|bce"); }
TEST_F(ImportTest, crossEntropyIsAdded) {
  options.loss = ImportOptions::Loss::crossEntropy;
  options.label = "target";
  std::string ir = text(withoutLoss());
  EXPECT_HAS(ir,
             "tensor<4xi64> {graph.input = \"target\", graph.label, graph.padding = -100 : i64, graph.range = [0, 5]}");
  EXPECT_HAS(ir, "tensor<4x5xf32> {graph.output = \"y\"}");
}
TEST_F(ImportTest, meanSquaredErrorCountsRows) {
  options.loss = ImportOptions::Loss::mse;
  options.label = "target";
  std::string ir = text(withoutLoss());
  EXPECT_HAS(ir, "tensor<4x5xf32> {graph.input = \"target\"}, %arg3: tensor<i64> {graph.scalar = \"rows\"}");
}
TEST_F(ImportTest, classesAreAlongTheirAxis) {
  ModelMaker m;
  m.input("x", {4, 7, 3}).weight("w", {3, 5}).output("y");
  m.node("MatMul", {"x", "w"}, {"y"}, "mm");
  options.loss = ImportOptions::Loss::crossEntropy;
  options.label = "target";
  options.classAxis = -1;
  std::string ir = text(m);
  EXPECT_HAS(ir, "tensor<4x7xi64> {graph.input = \"target\", graph.label, graph.padding = -100 : i64, graph.range = [0, 5]}");
  EXPECT_HAS(ir, "(tensor<28x5xf32>, tensor<28xi64>) -> tensor<28xf32>");
  EXPECT_EQ(import(m)->notes[0], "loss cross_entropy of 'y' 4x7x5: 5 classes along axis 2, label 'target' 4x7");
  options.classAxis = std::nullopt;
  EXPECT_EQ(import(m)->notes[0],
            "loss cross_entropy of 'y' 4x7x5: 7 classes along axis 1 (--class-axis names another), label 'target' 4x5");
  for (int64_t axis : {0, 3, -3}) {
    options.classAxis = axis;
    EXPECT_HAS(failure(m), "an output of shape 4x7x5 has the axes 1 to 2 behind the batch");
  }
}
TEST_F(ImportTest, lossNeedsALabel) {
  options.loss = ImportOptions::Loss::bce;
  EXPECT_HAS(failure(withoutLoss()), "--label NAME");
}
TEST_F(ImportTest, severalLossesAskForOne) {
  ModelMaker m = classifier();
  m.node("Identity", {"loss"}, {"copy"});
  m.output("copy");
  EXPECT_HAS(failure(m), "choose one with --output NAME (loss, copy)");
  options.output = "copy";
  EXPECT_HAS(text(m), "graph.output = \"loss\"");
  options.output = "nothing";
  EXPECT_HAS(failure(m), "--output nothing names no output of the model");
}

//===- Freezing and hazards -----------------------------------------------===//

TEST_F(ImportTest, frozenParameters) {
  options.freeze = {"*.b?as"};
  EXPECT_HAS(text(classifier()), "graph.frozen, graph.parameter = \"fc.bias\"");
  options.freeze = {"conv*"};
  EXPECT_HAS(failure(classifier()), "--freeze conv* names no parameter of the model; there are: fc.weight, fc.bias");
  options.freeze = {"*"};
  EXPECT_HAS(failure(classifier()), "nothing is left to train");
}
TEST_F(ImportTest, madeUpNamesAreExplained) {
  ModelMaker m = classifier();
  m.model.mutable_graph()->mutable_initializer(0)->set_name("val_3");
  m.model.mutable_graph()->mutable_node(0)->set_input(1, "val_3");
  text(m);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_HAS(warnings[0], "gave them names of its own (val_3)");
}
TEST_F(ImportTest, noParameters) {
  ModelMaker m;
  m.input("x", {4}).output("loss");
  setInteger(m.node("ReduceSum", {"x"}, {"loss"}), "keepdims", 0);
  EXPECT_HAS(failure(m), "no parameter to train");
}

TEST_F(ImportTest, noRows) {
  for (bool scalar : {false, true}) {
    ModelMaker m;
    if (scalar)
      m.input("x", {});
    m.weight("w", {4}).output("loss");
    m.node("Identity", {"w"}, {"v"});
    if (scalar)
      m.node("Mul", {"w", "x"}, {"v2"});
    setInteger(m.node("ReduceSum", {scalar ? "v2" : "v"}, {"loss"}), "keepdims", 0);
    EXPECT_HAS(failure(m), "no input of the model has a dimension for the batch");
  }
}

static ModelMaker batchNorm(bool training) {
  ModelMaker m;
  m.input("x", {4, 2, 3, 3}).output("loss");
  for (const char *name : {"bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"})
    m.weight(name, {2});
  std::vector<std::string> outputs{"y"};
  if (training)
    outputs = {"y", "mean", "var"};
  auto &node =
      m.node("BatchNormalization", {"x", "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"}, outputs);
  if (training)
    setInteger(node, "training_mode", 1);
  setInteger(m.node("ReduceMean", {"y"}, {"loss"}), "keepdims", 0);
  return m;
}
TEST_F(ImportTest, batchNormRenewsItsStatistics) {
  std::string ir = text(batchNorm(true));
  EXPECT_HAS(ir, "%arg2: tensor<2xf32> {graph.buffer = \"bn.running_mean\"}, %arg3: tensor<2xf32> {graph.buffer = "
                 "\"bn.running_var\"}, %arg4: tensor<4x2x3x3xf32>");
  EXPECT_HAS(ir,
             "tensor<2xf32> {graph.renews = \"bn.running_mean\"}, tensor<2xf32> {graph.renews = \"bn.running_var\"}");
  EXPECT_HAS(ir, "graph.batch_norm");
  EXPECT_TRUE(warnings.empty());
}
TEST_F(ImportTest, batchNormIsPromotedWithAWarning) {
  EXPECT_HAS(text(batchNorm(false)), "graph.renews = \"bn.running_var\"");
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_HAS(warnings[0], "--batch-norm=inference");
}
TEST_F(ImportTest, batchNormCanStayInference) {
  options.batchNormTraining = false;
  std::string ir = text(batchNorm(false));
  EXPECT_LACKS(ir, "graph.batch_norm");
  EXPECT_LACKS(ir, "graph.renews");
  EXPECT_HAS(ir, "graph.buffer = \"bn.running_mean\"");
}

//===- Functions and branches ---------------------------------------------===//

/// y = LeakyRelu(x, alpha = slope).
static onnx::FunctionProto &leaky(ModelMaker &m) {
  auto *function = m.model.add_functions();
  function->set_name("Leaky");
  function->set_domain("mine");
  function->add_input("a");
  function->add_output("b");
  function->add_attribute("slope");
  function->add_opset_import()->set_version(16);
  auto &node = ModelMaker::fill(*function->add_node(), "LeakyRelu", {"a"}, {"b"}, "inner");
  auto &alpha = attribute(node, "alpha", onnx::AttributeProto::FLOAT);
  alpha.set_ref_attr_name("slope");
  return *function;
}
static ModelMaker callsLeaky() {
  ModelMaker m = withoutLoss();
  auto &node = m.node("Leaky", {"y"}, {"z"}, "call");
  node.set_domain("mine");
  attribute(node, "slope", onnx::AttributeProto::FLOAT).set_f(0.25);
  setInteger(m.node("ReduceSum", {"z"}, {"loss"}), "keepdims", 0);
  m.output("loss");
  return m;
}
TEST_F(ImportTest, functionsAreInlined) {
  ModelMaker m = callsLeaky();
  leaky(m);
  EXPECT_HAS(text(m), "dense<2.500000e-01>");
}
TEST_F(ImportTest, recursionIsRefused) {
  ModelMaker m = callsLeaky();
  auto &function = leaky(m);
  function.mutable_node(0)->set_op_type("Leaky");
  function.mutable_node(0)->set_domain("mine");
  EXPECT_HAS(failure(m), "deep");
}
TEST_F(ImportTest, constantConditionChoosesABranch) {
  ModelMaker m = withoutLoss();
  m.integers("one", {1});
  setInteger(m.node("Cast", {"one"}, {"condition"}), "to", onnx::TensorProto::BOOL);
  auto &node = m.node("If", {"condition"}, {"z"}, "choice");
  for (const char *branch : {"then_branch", "else_branch"}) {
    auto *graph = attribute(node, branch, onnx::AttributeProto::GRAPH).mutable_g();
    bool isThen = branch[0] == 't';
    ModelMaker::fill(*graph->add_node(), isThen ? "Tanh" : "Unknown", {"y"}, {"r"}, "");
    graph->add_output()->set_name("r");
  }
  setInteger(m.node("ReduceSum", {"z"}, {"loss"}), "keepdims", 0);
  m.output("loss");
  EXPECT_HAS(text(m), "graph.tanh");
}

//===- Bad models ---------------------------------------------------------===//

TEST_F(ImportTest, unsupportedOperatorsAreReportedTogether) {
  ModelMaker m = classifier();
  m.node("StringConcat", {"x"}, {"a"}, "l1");
  m.node("StringConcat", {"x"}, {"b"}, "l2");
  m.node("Foo", {"x"}, {"c"}).set_domain("com.me");
  EXPECT_EQ(failure(m), "2 unsupported operators: StringConcat (2 nodes: l1, l2); com.me.Foo (1 node: Foo_4); "
                        "docs/onnx.md lists what works, and how to export something else");
}
TEST_F(ImportTest, undefinedAndRepeatedNames) {
  ModelMaker m = classifier();
  m.node("Relu", {"nowhere"}, {"r"}, "bad");
  EXPECT_EQ(failure(m), "node 'bad' (Relu): input 'nowhere' is not defined before this node");
  m = classifier();
  m.node("Relu", {"x"}, {"logits"}, "again");
  EXPECT_HAS(failure(m), "node 'again' (Relu): output 'logits' has the name of another value");
}
TEST_F(ImportTest, wrongSizeOfData) {
  ModelMaker m = classifier();
  m.model.mutable_graph()->mutable_initializer(0)->mutable_raw_data()->resize(10);
  EXPECT_EQ(failure(m), "tensor 'fc.weight': it has 10 bytes of data, but its shape needs 60");
}
TEST_F(ImportTest, overflowingShapes) {
  ModelMaker m = classifier();
  m.model.mutable_graph()->mutable_initializer(0)->set_dims(0, int64_t(1) << 62);
  EXPECT_HAS(failure(m), "too large");
  m.model.mutable_graph()->mutable_initializer(0)->set_dims(0, -5);
  EXPECT_HAS(failure(m), "negative");
}
TEST_F(ImportTest, notAModel) {
  EXPECT_TRUE(mlir::failed(importBytes("this is not a model")));
  EXPECT_HAS(error(), "not an ONNX model");
  EXPECT_TRUE(mlir::failed(importBytes("")));
  EXPECT_TRUE(mlir::failed(importOnnx(context, (folder / "none.onnx").string(), options)));
}
