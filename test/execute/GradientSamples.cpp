#include "test/execute/GradientSamples.h"

#include "dialects/Graph/GraphBuilder.h"
#include "passes/Training/Autodiff.h"

#include "llvm/ADT/Sequence.h"

#include <cmath>

using namespace mlir;
using namespace divisi;
using namespace divisi::test;

static std::string unary(const std::string &op) {
  return "func.func @forward(%x: tensor<3x5xf64>) -> tensor<3x5xf64> {\n  %0 = graph." + op +
         " %x : tensor<3x5xf64>\n  return %0 : tensor<3x5xf64>\n}";
}
static std::string binary(const std::string &op) {
  return "func.func @forward(%x: tensor<3x5xf64>, %y: tensor<3x5xf64>) -> tensor<3x5xf64> {\n  %0 = graph." + op +
         " %x, %y : tensor<3x5xf64>\n  return %0 : tensor<3x5xf64>\n}";
}
std::string test::function(const std::vector<std::string> &arguments, const std::string &result,
                           const std::string &operation) {
  std::string text = "func.func @forward(";
  for (size_t i = 0; i < arguments.size(); ++i)
    text += std::string(i ? ", " : "") + "%" + char('a' + i) + ": tensor<" + arguments[i] + ">";
  return text + ") -> tensor<" + result + "> {\n  " + operation + "\n  return %r : tensor<" + result + ">\n}";
}

GradientSample test::sample(const std::string &op, const std::vector<std::string> &arguments, const std::string &result,
                            const std::string &attributes) {
  std::string operands, types;
  for (size_t i = 0; i < arguments.size(); ++i) {
    operands += std::string(i ? ", %" : "%") + char('a' + i);
    types += std::string(i ? ", " : "") + "tensor<" + arguments[i] + ">";
  }
  return {op, function(arguments, result,
                       "%r = graph." + op + " " + operands + " {" + attributes + "} : (" + types + ") -> tensor<" +
                           result + ">")};
}

std::vector<GradientSample> test::gradientSamples() {
  std::vector<GradientSample> all;
  for (const char *op :
       {"neg", "abs", "exp", "log",  "sqrt", "rsqrt", "reciprocal", "tanh", "erf",   "sigmoid", "softplus", "relu",
        "sin", "cos", "tan", "asin", "acos", "atan",  "sinh",       "cosh", "asinh", "atanh",   "gelu"})
    all.push_back({op, unary(op)});
  for (const char *op : {"abs", "relu", "tanh", "gelu", "sigmoid", "softplus"}) // negative arguments, too
    all.push_back({op, unary(op), -0.91, 0.83});
  all.push_back({"acosh", unary("acosh"), 1.2, 2.5});
  all.push_back({"gelu", function({"3x5xf64"}, "3x5xf64", "%r = graph.gelu %a {tanh} : tensor<3x5xf64>"), -1, 1});
  for (const char *op : {"add", "sub", "mul", "div", "rem", "pow", "max", "min"})
    all.push_back({op, binary(op)});
  all.push_back({"cast", function({"4xf64"}, "4xf64",
                                  "%0 = graph.cast %a : (tensor<4xf64>) -> tensor<4xf64>\n"
                                  "%r = graph.mul %0, %0 : tensor<4xf64>")});
  all.push_back(
      {"select",
       function({"4xf64", "4xf64"}, "4xf64",
                "%0 = graph.compare lt %a, %b : (tensor<4xf64>, tensor<4xf64>) -> tensor<4xi1>\n"
                "%r = graph.select %0, %a, %b : (tensor<4xi1>, tensor<4xf64>, tensor<4xf64>) -> tensor<4xf64>")});
  const std::string q = "2x3x2x4xf64", k = "2x5x2x4xf64", bias = "2x1x3x5xf64";
  auto attention = [&](const std::string &more, const std::string &type, const std::string &attributes) {
    all.push_back({"attention", function({q, k, k}, q,
                                         "%z = graph.constant dense<0.3> : tensor<" + bias + ">\n" +
                                             "%r, %s = graph.attention %a, %b, %c" + more + " {" + attributes +
                                             "scale = 0.7 : f64} : (tensor<" + q + ">, tensor<" + k + ">, tensor<" + k +
                                             ">" + type + ") -> (tensor<" + q + ">, tensor<2x2x3xf64>)")});
  };
  attention("", "", "causal, ");
  attention(", %z", ", tensor<" + bias + ">", "");
  auto one = [&](const std::string &op, const std::vector<std::string> &in, const std::string &out,
                 const std::string &attributes) { all.push_back(sample(op, in, out, attributes)); };
  one("broadcast", {"3x1xf64"}, "2x3x4xf64", "dims = array<i64: 1, 2>");
  one("reshape", {"2x6xf64"}, "3x4xf64", "");
  one("transpose", {"2x3x4xf64"}, "4x2x3xf64", "permutation = array<i64: 2, 0, 1>");
  one("slice", {"5x6xf64"}, "2x3xf64", "starts = array<i64: 1, 5>, steps = array<i64: 2, -2>");
  one("pad", {"2x3xf64"}, "4x7xf64", "low = array<i64: 1, 1>, steps = array<i64: 1, 2>, value = 0.5 : f64");
  one("concat", {"2x3xf64", "2x1xf64"}, "2x4xf64", "dim = 1 : i64");
  one("gather", {"4x3xf64", "2x3xi64"}, "2x3x3xf64", "dim = 0 : i64");
  one("gather", {"2x4x3xf64", "5xi64"}, "2x5x3xf64", "dim = 1 : i64");
  one("scatter_add", {"4x3xf64", "5xi64", "5x3xf64"}, "4x3xf64", "dim = 0 : i64");
  one("gather_elements", {"4x3xf64", "2x3xi64"}, "2x3xf64", "dim = 0 : i64");
  one("scatter_elements", {"4x3xf64", "2x3xi64", "2x3xf64"}, "4x3xf64", "dim = 0 : i64, combine = #graph<combine add>");
  one("scatter_elements", {"4x3xf64", "2x3xi64", "2x3xf64"}, "4x3xf64",
      "dim = 0 : i64, combine = #graph<combine assign>");
  all.back().modulo = 4; // no element is written twice
  for (std::string combine : {"max", "min", "mul"}) {
    one("scatter_elements", {"4x3xf64", "2x3xi64", "2x3xf64"}, "4x3xf64",
        "dim = 0 : i64, combine = #graph<combine " + combine + ">");
    one("scatter_nd", {"3x4xf64", "3x1xi64", "3x4xf64"}, "3x4xf64",
        "batch_dims = 0 : i64, combine = #graph<combine " + combine + ">");
  }
  one("gather_nd", {"3x4xf64", "3x1xi64"}, "3x4xf64", "batch_dims = 0 : i64");
  one("scatter_nd", {"3x4xf64", "2x1xi64", "2x4xf64"}, "3x4xf64",
      "batch_dims = 0 : i64, combine = #graph<combine add>");
  one("cumsum", {"3x4xf64"}, "3x4xf64", "dim = 1 : i64");
  one("cumsum", {"3x4xf64"}, "3x4xf64", "dim = 0 : i64, exclusive, reverse");
  for (const char *op : {"reduce_sum", "reduce_max", "reduce_min", "reduce_prod"}) {
    one(op, {"3x4x2xf64"}, "3x2xf64", "dims = array<i64: 1>");
    one(op, {"3x4x2xf64"}, "4xf64", "dims = array<i64: 0, 2>");
  }
  one("matmul", {"3x4xf64", "4x5xf64"}, "3x5xf64", "");
  one("matmul", {"2x4x3xf64", "2x5x4xf64"}, "2x3x5xf64", "transpose_lhs, transpose_rhs");
  std::string conv = "strides = array<i64: 2, 1>, dilations = array<i64: 1, 2>, pads_low = array<i64: 1, 0>, "
                     "pads_high = array<i64: 0, 2>, groups = 2 : i64";
  one("conv", {"2x4x5x6xf64", "6x2x3x2xf64"}, "2x6x2x6xf64", conv);
  one("conv", {"2x5x6x4xf64", "6x2x3x2xf64"}, "2x2x6x6xf64", conv + ", channels_last");
  one("conv_input_grad", {"2x6x2x6xf64", "6x2x3x2xf64"}, "2x4x5x6xf64", conv);
  one("conv_filter_grad", {"2x4x5x6xf64", "2x6x2x6xf64"}, "6x2x3x2xf64", conv);
  std::string pool =
      "window = array<i64: 1, 1, 3, 2>, strides = array<i64: 1, 1, 2, 2>, dilations = array<i64: 1, 1, 1, 1>, "
      "pads_low = array<i64: 0, 0, 1, 0>";
  all.push_back({"max_pool", function({"2x3x5x6xf64"}, "2x3x3x3xf64",
                                      "%r, %p = graph.max_pool %a {" + pool +
                                          "} : (tensor<2x3x5x6xf64>) -> (tensor<2x3x3x3xf64>, tensor<2x3x3x3xi32>)")});
  one("sum_pool", {"2x3x5x6xf64"}, "2x3x3x3xf64", pool);
  one("sum_pool_grad", {"2x3x3x3xf64"}, "2x3x5x6xf64", pool);
  std::string gaps =
      "window = array<i64: 1, 1, 2, 3>, strides = array<i64: 1, 1, 3, 1>, dilations = array<i64: 1, 1, 1, 2>, "
      "pads_low = array<i64: 0, 0, 0, 1>";
  all.push_back({"max_pool", function({"2x2x7x6xf64"}, "2x2x2x3xf64",
                                      "%r, %p = graph.max_pool %a {" + gaps +
                                          "} : (tensor<2x2x7x6xf64>) -> (tensor<2x2x2x3xf64>, tensor<2x2x2x3xi32>)")});
  one("sum_pool", {"2x2x7x6xf64"}, "2x2x2x3xf64", gaps);
  one("softmax", {"3x5xf64"}, "3x5xf64", "dim = 1 : i64");
  one("softmax", {"3x5x2xf64"}, "3x5x2xf64", "dim = 1 : i64");
  one("log_softmax", {"3x5xf64"}, "3x5xf64", "dim = 1 : i64");
  one("layer_norm", {"3x5xf64", "5xf64", "5xf64"}, "3x5xf64", "dim = 1 : i64, epsilon = 1.0e-5 : f64");
  one("rms_norm", {"3x5xf64", "5xf64"}, "3x5xf64", "dim = 1 : i64, epsilon = 1.0e-5 : f64");
  all.push_back(
      {"batch_norm",
       function(
           {"4x3x2xf64", "3xf64", "3xf64"}, "4x3x2xf64",
           "%r, %m, %v = graph.batch_norm %a, %b, %c {dim = 1 : i64, epsilon = 1.0e-5 : f64} : "
           "(tensor<4x3x2xf64>, tensor<3xf64>, tensor<3xf64>) -> (tensor<4x3x2xf64>, tensor<3xf64>, tensor<3xf64>)")});
  one("cross_entropy", {"4x3xf64", "4xi64"}, "4xf64", "");
  one("cross_entropy", {"2x3x4xf64", "2x4xi64"}, "2x4xf64", "");
  all.push_back({"cross_entropy",
                 function({"5x3xf64", "5xi64"}, "5xf64",
                          "%r = graph.cross_entropy %a, %b : (tensor<5x3xf64>, tensor<5xi64>) -> tensor<5xf64>"),
                 0.3, 0.9, 4}); // label 3 is out of range: ignored
  all.push_back({"top_k", function({"3x5xf64"}, "3x2xf64",
                                   "%r, %i = graph.top_k %a {k = 2 : i64, dim = 1 : i64} : (tensor<3x5xf64>) -> "
                                   "(tensor<3x2xf64>, tensor<3x2xi64>)")});
  all.push_back({"dropout", function({"4x5xf64"}, "4x5xf64",
                                     "%s = graph.constant dense<7> : tensor<i64>\n"
                                     "%r = graph.dropout %a, %s, %s {ratio = 0.4 : f64, stream = 1 : i64} : "
                                     "(tensor<4x5xf64>, tensor<i64>, tensor<i64>) -> tensor<4x5xf64>")});
  return all;
}

double test::number(uint64_t i) {
  return std::fmod(0.5 + 0.7548776662466927 * (double)(i + 1) + 0.1 * std::sin((double)i), 1.0);
}

void test::addProducers(func::FuncOp function) {
  OpBuilder builder = OpBuilder::atBlockBegin(&function.getBody().front());
  graph::GraphBuilder b(builder, function.getLoc());
  uint64_t seed = 5000;
  for (BlockArgument argument : function.getArguments()) {
    auto type = graph::tensorType(argument);
    if (!isa<FloatType>(type.getElementType()))
      continue;
    SmallVector<int64_t> shape(llvm::reverse(type.getShape()));
    auto order = llvm::to_vector(llvm::reverse(llvm::seq<int64_t>(0, shape.size())));
    auto turned = RankedTensorType::get(shape, type.getElementType());
    auto constant = [&](double low, double high) {
      SmallVector<Attribute> values;
      for (int64_t i = 0; i < type.getNumElements(); ++i)
        values.push_back(builder.getFloatAttr(type.getElementType(), low + (high - low) * number(seed++)));
      return b.constant(DenseElementsAttr::get(turned, values));
    };
    Value scale = constant(0.9, 1), shift = constant(0, 0.02);
    argument.setType(turned);
    auto scaled = graph::MulOp::create(builder, function.getLoc(), argument, scale);
    Value made = b.transpose(b.add(scaled, shift), order);
    argument.replaceAllUsesExcept(made, scaled);
  }
  function.setType(
      builder.getFunctionType(function.getBody().getArgumentTypes(), function.getFunctionType().getResults()));
}

void test::addGradients(func::FuncOp function) {
  Operation *terminator = function.getBody().front().getTerminator();
  OpBuilder builder(terminator);
  graph::GraphBuilder b(builder, function.getLoc());
  Value result = terminator->getOperand(0);
  auto type = graph::tensorType(result);
  SmallVector<Attribute> weights;
  for (int64_t i = 0; i < type.getNumElements(); ++i)
    weights.push_back(builder.getFloatAttr(type.getElementType(), number(1000 + i) - 0.3));
  Value weight = b.constant(DenseElementsAttr::get(type, weights));
  Value loss = b.sumAll(b.mul(result, weight));
  SmallVector<Value> wanted, outputs = {loss};
  for (Value argument : function.getArguments())
    if (isa<FloatType>(graph::tensorType(argument).getElementType()))
      wanted.push_back(argument);
  for (auto [argument, gradient] : llvm::zip(wanted, training::buildGradients(builder, loss, wanted)))
    outputs.push_back(gradient ? gradient : b.splatLike(argument, 0));
  terminator->setOperands(outputs);
  function.setType(builder.getFunctionType(function.getArgumentTypes(), TypeRange(ValueRange(outputs))));
}
