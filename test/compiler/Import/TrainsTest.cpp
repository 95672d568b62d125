#include "ModelMaker.h"

#include <cmath>

using namespace divisi::compiler;

namespace {

/// Adds metadata of newer exporters to an element, in a field that Debian's schema lacks.
template <typename Element> void note(Element &element, int field, const std::string &key, const std::string &value) {
  onnx::StringStringEntryProto entry;
  entry.set_key(key);
  entry.set_value(value);
  element.GetReflection()->MutableUnknownFields(&element)->AddLengthDelimited(field, entry.SerializeAsString());
}
constexpr int ofNode = 9, ofValue = 4, ofGraph = 16;

class TrainsTest : public ImportTest {
protected:
  /// "parameter: reason" of a tensor; "" if it is not listed.
  std::string verdict(const ModelMaker &maker, const std::string &name) {
    errors.clear();
    std::string path = folder / "model" / "net.onnx";
    std::ofstream(path, std::ios::binary) << maker.model.SerializePartialAsString();
    mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
      errors.push_back(diagnostic.str());
      return mlir::success();
    });
    auto rows = listParameters(context, path, options);
    if (mlir::succeeded(rows))
      for (const TensorListing &row : *rows)
        if (row.name == name)
          return nameOf(row.role).str() + ": " + row.reason;
    return "";
  }
};

/// loss = sum(x * w * t), where w is a parameter by its name.
ModelMaker product(const std::string &name, const std::string &producer = "pytorch") {
  ModelMaker m;
  m.model.set_producer_name(producer);
  m.input("x", {2, 3}).weight("fc.weight", {2, 3}).weight(name, {2, 3}).output("loss");
  m.node("Mul", {"x", "fc.weight"}, {"y"}, "/fc/Mul");
  m.node("Mul", {"y", name}, {"z"}, "/Mul");
  setInteger(m.node("ReduceSum", {"z"}, {"loss"}, "sum"), "keepdims", 0);
  return m;
}

void setValues(ModelMaker &m, int initializer, std::vector<float> values) {
  m.model.mutable_graph()->mutable_initializer(initializer)->set_raw_data(values.data(), values.size() * sizeof(float));
}

void sign(ModelMaker &m, const std::string &lines) {
  note(*m.model.mutable_graph(), ofGraph, "pkg.torch.export.ExportedProgram.graph_signature", lines);
}

void foldedFrom(ModelMaker &m, const std::string &name, const std::string &sources) {
  auto *value = m.model.mutable_graph()->add_value_info();
  value->set_name(name);
  note(*value, ofValue, "pkg.onnxscript.optimizer.folded_from", sources);
}

void call(onnx::NodeProto &node, const std::string &target, const std::string &arguments, const std::string &scopes) {
  note(node, ofNode, "pkg.torch.onnx.fx_node",
       "%call : [num_users=1] = call_function[target=torch.ops." + target + "](args = (" + arguments +
           "), kwargs = {})");
  note(node, ofNode, "pkg.torch.onnx.name_scopes", scopes);
}

} // namespace

//===- What the exporter wrote down ---------------------------------------===//

TEST_F(TrainsTest, theSignatureDecides) {
  ModelMaker m = product("weird.weight");
  sign(m, "# inputs\np_fc_weight: PARAMETER target='fc.weight'\nb_w: BUFFER target='weird.weight' persistent=True\n");
  EXPECT_HAS(verdict(m, "fc.weight"), "parameter: ");
  EXPECT_HAS(verdict(m, "weird.weight"), "frozen: ");
  std::string ir = text(m);
  EXPECT_HAS(ir, "graph.frozen, graph.parameter = \"weird.weight\"");
  EXPECT_TRUE(warnings.empty());
}

TEST_F(TrainsTest, whatNoModuleOwnsIsAConstant) {
  ModelMaker m = product("scalar_tensor_default");
  sign(m, "p_fc_weight: PARAMETER target='fc.weight'\nc_lifted: CONSTANT_TENSOR target='lifted'\n");
  EXPECT_HAS(verdict(m, "scalar_tensor_default"), "undecided: "); // without the metadata of nodes
  call(*m.model.mutable_graph()->mutable_node(0), "aten.mul.Tensor", "%x, %p_fc_weight", "['', 'fc', 'mul']");
  EXPECT_HAS(verdict(m, "scalar_tensor_default"), "constant: ");
  std::string ir = text(m);
  EXPECT_LACKS(ir, "scalar_tensor_default");
  EXPECT_HAS(ir, "graph.constant");
  EXPECT_TRUE(warnings.empty());
  auto model = import(m); // a constant stays in the saved model
  ASSERT_TRUE(mlir::succeeded(model));
  ASSERT_EQ(model->weights.size(), 1u);
  EXPECT_HAS(model->skeleton, "scalar_tensor_default");
}

TEST_F(TrainsTest, whatIsComputedFromAParameterIsLeftOpen) {
  ModelMaker m = product("exp");
  sign(m, "p_fc_weight: PARAMETER target='fc.weight'\np_scale: PARAMETER target='scale'\n");
  foldedFrom(m, "exp", "['scale']");
  EXPECT_HAS(verdict(m, "exp"), "undecided: the exporter computed it from 'scale'");
  EXPECT_HAS(failure(m), "--train NAME or --freeze NAME (exp)");
  EXPECT_HAS(error(), "optimize=False");
  options.train = {"exp"};
  EXPECT_LACKS(text(m), "graph.frozen");
  options.train = {};
  options.freeze = {"exp"};
  EXPECT_HAS(text(m), "graph.frozen, graph.parameter = \"exp\"");
}

TEST_F(TrainsTest, whatIsComputedFromBuffersIsAConstant) {
  ModelMaker m = product("cos");
  sign(m, "p_fc_weight: PARAMETER target='fc.weight'\nb_inv: BUFFER target='inv_freq' persistent=False\n");
  foldedFrom(m, "cos", "['arange', 'inv_freq', 'val_1']");
  EXPECT_HAS(verdict(m, "cos"), "constant: ");
}

TEST_F(TrainsTest, rearrangedParametersTrain) {
  ModelMaker m = product("permute_1");
  sign(m, "p_fc_weight: PARAMETER target='fc.weight'\np_a: PARAMETER target='A'\n");
  foldedFrom(m, "permute_1", "['A']");
  EXPECT_HAS(verdict(m, "permute_1"), "parameter: ");
  text(m);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_HAS(warnings[0], "(permute_1)");
  ModelMaker tied = product("permute_1");
  sign(tied, "p_fc_weight: PARAMETER target='fc.weight'\n");
  foldedFrom(tied, "permute_1", "['fc.weight']");
  EXPECT_HAS(verdict(tied, "permute_1"), "undecided: ");
  EXPECT_HAS(verdict(tied, "permute_1"), "tied");
}

TEST_F(TrainsTest, parametersThatTheFileLacksAreNamed) {
  ModelMaker m = product("norm1.weight");
  sign(m, "p_fc_weight: PARAMETER target='fc.weight'\np_n1: PARAMETER target='norm1.weight'\n"
          "p_n2: PARAMETER target='norm2.weight'\np_alias: PARAMETER target='tied.weight'\n");
  call(*m.model.mutable_graph()->mutable_node(0), "aten.mul.Tensor", "%x, %p_fc_weight", "['', 'fc', 'mul']");
  call(*m.model.mutable_graph()->mutable_node(1), "aten.mul.Tensor", "%y, %p_n2", "['', 'norm2', 'mul_1']");
  EXPECT_HAS(failure(m), "'norm2.weight': the exporter merged it with 'norm1.weight'");
  EXPECT_LACKS(error(), "tied.weight"); // no call mentions it: the module has it under another name
  options.train = {"norm2.*"};
  EXPECT_HAS(text(m), "norm1.weight");
}

TEST_F(TrainsTest, changedBuffersAreToldOf) {
  ModelMaker m = product("ema");
  sign(m, "p_fc_weight: PARAMETER target='fc.weight'\nb_ema: BUFFER target='ema' persistent=True\n"
          "# outputs\nadd: BUFFER_MUTATION target='ema'\n");
  text(m);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_HAS(warnings[0], "changes its buffer 'ema'");
}

TEST_F(TrainsTest, nodesAreNamedWithTheirModule) {
  ModelMaker m = product("bad");
  m.model.mutable_graph()->mutable_initializer(1)->set_dims(0, 5);
  setValues(m, 1, std::vector<float>(15));
  call(*m.model.mutable_graph()->mutable_node(1), "aten.mul.Tensor", "%y", "['', 'layers.3', 'mul']");
  EXPECT_HAS(failure(m), "node '/Mul' (Mul in layers.3): ");
}

//===- Names and numbers --------------------------------------------------===//

TEST_F(TrainsTest, namesDecideWithAWarning) {
  EXPECT_HAS(verdict(product("encoder.pe"), "encoder.pe"), "frozen: ");
  text(product("rotary.inv_freq"));
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_HAS(warnings[0], "not trained: rotary.inv_freq");
  EXPECT_HAS(verdict(product("mixing"), "mixing"), "parameter: ");
  text(product("mixing"));
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_HAS(warnings[0], "they are trained: mixing");
  options.train = {"mixing"};
  text(product("mixing"));
  EXPECT_TRUE(warnings.empty());
}

/// The names are those of parameters, but the values or what is beside them tells something else.
TEST_F(TrainsTest, buffersWithNamesOfParametersAreNotSilent) {
  ModelMaker table = product("pos_embed");
  auto sizes = table.model.mutable_graph()->mutable_initializer(1);
  sizes->set_dims(0, 3), sizes->set_dims(1, 4);
  std::vector<float> angles;
  for (double position : {0, 1, 2})
    for (double angle : {position, position / 10})
      angles.push_back((float)std::sin(angle)), angles.push_back((float)std::cos(angle));
  setValues(table, 1, angles);
  EXPECT_HAS(verdict(table, "pos_embed"), "frozen: a table of sines and cosines");
  angles[2] += 0.1f;
  setValues(table, 1, angles);
  EXPECT_HAS(verdict(table, "pos_embed"), "parameter: by its name");

  EXPECT_HAS(verdict(product("blur.kernel"), "blur.kernel"), "parameter: PyTorch's modules have no parameter of this name");
  EXPECT_HAS(verdict(product("dense/kernel", "tf2onnx"), "dense/kernel"), "parameter: by its name");

  ModelMaker filter = product("conv.weight");
  auto *shape = filter.model.mutable_graph()->mutable_initializer(1);
  shape->set_dims(0, 3), shape->set_dims(1, 1), shape->add_dims(2);
  setValues(filter, 1, {1, 2, 1, 2, 1, 2});
  EXPECT_HAS(verdict(filter, "conv.weight"), "parameter: the same filter several times");
  setValues(filter, 1, {1, 2, 1, 2, 1, 3});
  EXPECT_HAS(verdict(filter, "conv.weight"), "parameter: by its name");
  setValues(filter, 1, {1, 1, 1, 1, 1, 1});
  EXPECT_HAS(verdict(filter, "conv.weight"), "parameter: by its name");

  ModelMaker norm = product("norm.weight");
  EXPECT_HAS(verdict(norm, "norm.weight"), "parameter: by its name");
  norm.weight("norm.running_mean", {2, 3}).weight("norm.running_var", {2, 3});
  norm.node("Mul", {"norm.running_mean", "norm.running_var"}, {"unused"}, "scale");
  EXPECT_HAS(verdict(norm, "norm.weight"), "frozen: beside running statistics that no BatchNormalization reads");
  EXPECT_HAS(verdict(norm, "fc.weight"), "parameter: by its name");
}

TEST_F(TrainsTest, masksAreKnownByTheirNumbers) {
  ModelMaker m = product("visible");
  setValues(m, 1, {0, 1, 1, 0, 0, 1});
  EXPECT_HAS(verdict(m, "visible"), "frozen: a mask: it has only 0 and 1");
  setValues(m, 1, {0, -INFINITY, -1e9f, 0, 0, 0});
  EXPECT_HAS(verdict(m, "visible"), "frozen: a mask: it has only 0 and -inf");
  setValues(m, 1, {1, 1, 1, 1, 1, 1}); // a normalization's weight
  EXPECT_HAS(verdict(m, "visible"), "parameter: ");
  setValues(m, 0, {0, 1, 1, 0, 0, 1}); // only its name is known
  EXPECT_HAS(verdict(m, "fc.weight"), "parameter: ");
}

TEST_F(TrainsTest, numbersOfOtherExportersAreConstants) {
  ModelMaker m = product("two", "tf2onnx");
  m.model.mutable_graph()->mutable_initializer(1)->clear_dims();
  setValues(m, 1, {2});
  EXPECT_HAS(verdict(m, "two"), "constant: ");
  m.model.set_producer_name("pytorch"); // whose exporter writes numbers as nodes
  EXPECT_HAS(verdict(m, "two"), "parameter: ");
}

TEST_F(TrainsTest, whatTorchScriptFoldedIsLeftOpenUnlessItIsAWeight) {
  EXPECT_HAS(failure(product("onnx::Mul_7")), "'onnx::Mul_7': the exporter computed it, perhaps from parameters");
  ModelMaker m = product("pe");
  m.weight("onnx::MatMul_8", {3, 2}).node("MatMul", {"z", "onnx::MatMul_8"}, {"u"}, "/head/MatMul");
  m.model.mutable_graph()->mutable_node(2)->set_input(0, "u");
  std::swap(*m.model.mutable_graph()->mutable_node(2), *m.model.mutable_graph()->mutable_node(3));
  EXPECT_HAS(verdict(m, "onnx::MatMul_8"), "parameter: ");
  setValues(m, 2, {0, 3, 1, 4, 2, 5}); // fc.weight, transposed
  EXPECT_HAS(verdict(m, "onnx::MatMul_8"), "undecided: the exporter made it a transposed copy of 'fc.weight'");
}

TEST_F(TrainsTest, mergedByTorchScript) {
  ModelMaker m = product("norm1.weight");
  m.node("Identity", {"norm1.weight"}, {"norm2.weight"}, "Identity_4");
  EXPECT_HAS(failure(m), "'norm2.weight': the exporter merged it with 'norm1.weight'");
}

TEST_F(TrainsTest, weightsOfClassesDoNotTrain) {
  ModelMaker m = classifier();
  m.weight("criterion.weight", {5});
  m.model.mutable_graph()->mutable_node(1)->add_input("criterion.weight");
  EXPECT_HAS(verdict(m, "criterion.weight"), "frozen: weights of classes in a loss");
}

TEST_F(TrainsTest, aTrainedPowerIsNoConstant) {
  ModelMaker m = product("p");
  m.model.mutable_graph()->mutable_node(1)->set_op_type("Pow");
  m.model.mutable_graph()->mutable_initializer(1)->clear_dims();
  setValues(m, 1, {3});
  EXPECT_HAS(text(m), "graph.parameter = \"p\"");
  options.freeze = {"p"};
  EXPECT_LACKS(text(m), "graph.parameter = \"p\""); // its value was used
}

TEST_F(TrainsTest, sharedNormalizationsOfOneModuleAreMeant) {
  ModelMaker m;
  m.model.set_producer_name("pytorch");
  m.input("x", {2, 3}).weight("enc.1.weight", {3}).output("loss");
  m.node("LayerNormalization", {"x", "enc.1.weight"}, {"y"}, "/enc/enc.1/LayerNormalization");
  auto &second = m.node("LayerNormalization", {"y", "enc.1.weight"}, {"z"}, "/enc/enc.1_1/LayerNormalization");
  setInteger(m.node("ReduceSum", {"z"}, {"loss"}), "keepdims", 0);
  text(m);
  EXPECT_TRUE(warnings.empty()) << warnings[0];
  second.set_name("/dec/norm/LayerNormalization");
  text(m);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_HAS(warnings[0], "shared by 2 normalizations");
}

//===- Flags --------------------------------------------------------------===//

TEST_F(TrainsTest, flagsWinOverTheFile) {
  ModelMaker m = product("table");
  sign(m, "p_fc_weight: PARAMETER target='fc.weight'\nb_table: BUFFER target='table' persistent=True\n");
  options.train = {"tab*"};
  EXPECT_EQ(verdict(m, "table"), "parameter: --train tab*");
  options.freeze = {"fc.*"};
  EXPECT_EQ(verdict(m, "fc.weight"), "frozen: --freeze fc.*");
}
TEST_F(TrainsTest, flagsThatContradictOrMatchNothing) {
  options.train = {"fc.*"};
  options.freeze = {"*.weight"};
  EXPECT_HAS(failure(product("pe")), "--freeze *.weight and --train fc.* are both given for 'fc.weight'");
  options.freeze = {};
  options.train = {"nothing"};
  EXPECT_HAS(failure(product("pe")), "--train nothing names no parameter of the model; there are: fc.weight, pe");
}

//===- Batch norm and dropout ---------------------------------------------===//

static ModelMaker convolution(const std::string &weight, const std::string &bias) {
  ModelMaker m;
  m.model.set_producer_name("pytorch");
  m.input("x", {1, 1, 4, 4}).weight(weight, {2, 1, 3, 3}).weight(bias, {2}).output("loss");
  m.node("Conv", {"x", weight, bias}, {"y"}, "/conv/Conv");
  setInteger(m.node("ReduceSum", {"y"}, {"loss"}), "keepdims", 0);
  return m;
}
TEST_F(TrainsTest, foldedBatchNormIsRefused) {
  ModelMaker noted = convolution("conv.weight", "conv.bias");
  note(*noted.model.mutable_graph()->mutable_node(0), ofNode, "pkg.onnxscript.rewriter.rule_name",
       "FuseBatchNormIntoConv");
  ModelMaker named = convolution("onnx::Conv_9", "onnx::Conv_10");
  for (const ModelMaker *m : {&noted, &named}) {
    options.batchNormTraining = true;
    EXPECT_HAS(failure(*m), "folded batch norm into the weights of /conv/Conv");
    EXPECT_HAS(error(), "optimize=False");
    EXPECT_HAS(error(), "--batch-norm=inference");
    options.batchNormTraining = false;
    text(*m);
    ASSERT_FALSE(warnings.empty());
    EXPECT_HAS(warnings[0], "batch norm is not");
  }
  options.batchNormTraining = true;
  text(convolution("conv.weight", "conv.bias"));
  EXPECT_TRUE(warnings.empty());
}

TEST_F(TrainsTest, attentionsOwnDropoutIsActive) {
  ModelMaker m;
  m.input("x", {2, 3}).weight("fc.weight", {3}).weight("ratio", {}).output("loss");
  setValues(m, 1, {0.25f});
  m.node("Mul", {"x", "fc.weight"}, {"y"});
  m.node("Dropout", {"y", "ratio"}, {"z"}, "drop");
  setInteger(m.node("ReduceSum", {"z"}, {"loss"}), "keepdims", 0);
  EXPECT_LACKS(text(m), "graph.dropout"); // by ONNX's definition
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_HAS(warnings[0], "dropout does nothing (drop)");
  m.model.set_producer_name("pytorch");
  EXPECT_HAS(text(m), "graph.dropout");
  EXPECT_TRUE(warnings.empty());
}

TEST_F(TrainsTest, dropoutThatAnExporterLostIsToldOf) {
  ModelMaker m = product("norm.weight");
  call(*m.model.mutable_graph()->mutable_node(1), "aten.scaled_dot_product_attention.default",
       "%view_4, %view_5, %view_6, None, 0.1", "['', 'layer.attn', 'scaled_dot_product_attention']");
  text(m);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_HAS(warnings[0], "dropout does nothing (call in layer.attn)");
}

//===- What notes say and nodes lack --------------------------------------===//

TEST_F(TrainsTest, detachStopsTheGradient) {
  ModelMaker m;
  m.input("x", {2, 3}).weight("fc.weight", {2, 3}).output("loss");
  m.node("Mul", {"x", "fc.weight"}, {"y"});
  call(m.node("Identity", {"y"}, {"d"}, "node_detach"), "aten.detach.default", "%y,", "['', 'detach']");
  m.node("Mul", {"y", "d"}, {"z"});
  setInteger(m.node("ReduceSum", {"z"}, {"loss"}), "keepdims", 0);
  EXPECT_HAS(text(m), "graph.straight_through");
  EXPECT_TRUE(warnings.empty());
  options.forwardOnly = true;
  EXPECT_LACKS(text(m), "graph.straight_through");
}

TEST_F(TrainsTest, lostDetachIsNamed) {
  ModelMaker m = product("fc.bias");
  call(*m.model.mutable_graph()->mutable_node(1), "aten.mul.Tensor", "%call, %detach_3", "['', 'mul']");
  text(m);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_HAS(warnings[0], "stops gradients (detach_3)");
  EXPECT_HAS(warnings[0], "optimize=False");
}

TEST_F(TrainsTest, paddingOfAnEmbedding) {
  ModelMaker m;
  m.input("ids", {2}, onnx::TensorProto::INT64).weight("e.weight", {5, 3}).output("loss");
  auto &gather = m.node("Gather", {"e.weight", "ids"}, {"y"}, "embed");
  setInteger(m.node("ReduceSum", {"y"}, {"loss"}), "keepdims", 0);
  EXPECT_LACKS(text(m), "graph.straight_through");
  ModelMaker scaled = m, without = m;
  call(gather, "aten.embedding.default", "%p_e_weight, %ids, 1", "['', 'e', 'embedding']");
  EXPECT_HAS(text(m), "graph.straight_through");
  call(*without.model.mutable_graph()->mutable_node(0), "aten.embedding.default", "%p_e_weight, %ids", "['', 'embedding']");
  EXPECT_LACKS(text(without), "graph.straight_through");
  call(*scaled.model.mutable_graph()->mutable_node(0), "aten.embedding.default", "%p_e_weight, %ids, -1, True",
       "['', 'e', 'embedding']");
  EXPECT_HAS(failure(scaled), "'embed' (Gather in e): scale_grad_by_freq of nn.Embedding is not supported");
}

TEST_F(TrainsTest, allBuffersOfAPowerIterationAreNamed) {
  ModelMaker m = product("weight.0._v");
  sign(m, "p_fc_weight: PARAMETER target='fc.weight'\nb_u: BUFFER target='weight.0._u' persistent=True\n"
          "b_v: BUFFER target='weight.0._v' persistent=True\n# outputs\nclone: BUFFER_MUTATION target='weight.0._u'\n"
          "clone_1: BUFFER_MUTATION target='weight.0._v'\nadd: BUFFER_MUTATION target='bn.num_batches_tracked'\n");
  text(m);
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_HAS(warnings[0], "'weight.0._u'");
  EXPECT_HAS(warnings[1], "'weight.0._v'");
}

TEST_F(TrainsTest, aNameOfAnOperatorIsExplained) {
  ModelMaker m = product("mean");
  sign(m, "p_fc_weight: PARAMETER target='fc.weight'\np_mean: PARAMETER target='mean'\n");
  m.node("Neg", {"x"}, {"mean"}, "node_mean");
  EXPECT_HAS(failure(m), "node 'node_mean' (Neg): output 'mean' has the name of another value: the exporter names nodes after "
                         "their operators, and a parameter or buffer of the module has this name; rename it in the module, or export by divisi.export");
}

TEST_F(TrainsTest, aNameOfAnOperatorThatAnInputHasIsExplained) {
  ModelMaker m = product("fc.bias");
  m.node("Neg", {"x"}, {"x"}, "node_x");
  EXPECT_HAS(failure(m), "node 'node_x' (Neg): output 'x' has the name of another value: the exporter names nodes after their "
                         "operators, and an input has this name; give it another one (input_names), or export by divisi.export");
}

TEST_F(TrainsTest, aMaskAsAnIndexHasARemedy) {
  ModelMaker m = product("fc.bias");
  setInteger(m.node("Cast", {"x"}, {"mask"}), "to", onnx::TensorProto::BOOL);
  m.node("NonZero", {"mask"}, {"places"}, "where");
  EXPECT_HAS(failure(m), "take torch.where or the loss's ignore_index");
}

TEST_F(TrainsTest, aDivisorOfAverageIsNoted) { // lists of the call are one argument each
  options.forwardOnly = true;
  for (auto [last, share] : {std::pair(", 5", "2.000000e-01"), {", None", "2.500000e-01"}, {"", "2.500000e-01"}}) {
    ModelMaker m;
    m.model.set_producer_name("pytorch");
    m.input("x", {1, 1, 4, 6}).output("y");
    auto &pool = m.node("AveragePool", {"x"}, {"y"});
    setIntegers(pool, "kernel_shape", {2, 2});
    setIntegers(pool, "strides", {2, 2});
    call(pool, "aten.avg_pool2d.default", std::string("%view, [2, 2], [2, 2], [0, 0], False, True") + last, "['', 'avg_pool2d']");
    EXPECT_HAS(text(m), std::string("dense<") + share + ">");
  }
}
