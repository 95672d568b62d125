#pragma once
#include "compiler/Pipeline.h"
#include "dialects/Graph/GraphBuilder.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

namespace divisi::test {

/// One small use of a graph operation: the arguments of a function, and the operation on them.
struct Sample {
  std::string arguments, operation;
};

/// At least one sample of every registered graph operation that has code (FacetsTest checks this).
inline std::vector<Sample> samples() {
  std::vector<Sample> list;
  std::string t = "tensor<4x6xf32>", i = "tensor<4x6xi64>", b = "tensor<4x6xi1>";
  for (const char *name :
       {"neg",      "abs",   "exp",   "log",   "sqrt", "rsqrt", "reciprocal", "tanh", "erf",  "sigmoid",
        "softplus", "relu",  "sin",   "cos",   "tan",  "asin",  "acos",       "atan", "sinh", "cosh",
        "asinh",    "acosh", "atanh", "floor", "ceil", "round", "sign",       "gelu"})
    list.push_back({"%x: " + t, std::string("%0 = graph.") + name + " %x : " + t});
  list.push_back({"%x: " + t, "%0 = graph.gelu %x {tanh} : " + t});
  for (const char *form : {"", " {tanh}"})
    list.push_back({"%x: " + t + ", %y: " + t, std::string("%0 = graph.gelu_grad %x, %y") + form + " : " + t});
  const std::string matrix = "tensor<4x128xf32>", vector = "tensor<128xf32>";
  auto epilogue = [&](const std::string &kind, const std::string &third, const std::string &second) {
    list.push_back({"%x: " + matrix + ", %y: tensor<128x128xf32>" + (third.empty() ? "" : ", %z: " + third),
                    (second.empty() ? "%0 = graph.matmul_epilogue " : "%0:2 = graph.matmul_epilogue ") + kind +
                        " %x, %y" + (third.empty() ? "" : ", %z") + " : (" + matrix + ", tensor<128x128xf32>" +
                        (third.empty() ? "" : ", " + third) + ") -> (" + matrix +
                        (second.empty() ? "" : ", " + second) + ")"});
  };
  epilogue("bias", vector, "");
  epilogue("relu", vector, "");
  epilogue("gelu", "", matrix);
  epilogue("gelu_grad", matrix, "");
  epilogue("sum_lhs", "", "tensor<4xf32>");
  epilogue("sum_rhs", "", vector);
  for (const char *name : {"add", "sub", "mul", "div", "rem", "pow", "max", "min"})
    list.push_back({"%x: " + t + ", %y: " + t, std::string("%0 = graph.") + name + " %x, %y : " + t});
  for (const char *name : {"and", "or", "xor", "shift_left", "shift_right"})
    list.push_back({"%x: " + i + ", %y: " + i, std::string("%0 = graph.") + name + " %x, %y : " + i});
  list.push_back({"%x: " + b, "%0 = graph.not %x : " + b});
  for (const char *name : {"is_nan", "is_inf"})
    list.push_back({"%x: " + t, std::string("%0 = graph.") + name + " %x : (" + t + ") -> " + b});
  list.push_back({"%x: " + t, "%0 = graph.cast %x : (" + t + ") -> tensor<4x6xf64>"});
  list.push_back({"%x: " + t, "%0 = graph.bitcast %x : (" + t + ") -> tensor<4x6xi32>"});
  list.push_back({"%x: " + t + ", %y: " + t, "%0 = graph.straight_through %x, %y : " + t});
  list.push_back({"%x: " + t + ", %y: " + t, "%0 = graph.compare lt %x, %y : (" + t + ", " + t + ") -> " + b});
  list.push_back({"%c: " + b + ", %x: " + t + ", %y: " + t,
                  "%0 = graph.select %c, %x, %y : (" + b + ", " + t + ", " + t + ") -> " + t});

  for (const char *name : {"reduce_sum", "reduce_max", "reduce_min", "reduce_prod"})
    for (const char *dims : {"0", "1", "0, 1"})
      list.push_back({"%x: " + t, std::string("%0 = graph.") + name + " %x {dims = array<i64: " + dims + ">} : (" + t +
                                      ") -> tensor<" +
                                      (dims == std::string("0")   ? "6x"
                                       : dims == std::string("1") ? "4x"
                                                                  : "") +
                                      "f32>"});
  for (const char *name : {"argmax", "argmin"})
    list.push_back(
        {"%x: " + t, std::string("%0 = graph.") + name + " %x {dim = 1 : i64} : (" + t + ") -> tensor<4xi64>"});

  std::string x3 = "%x: tensor<2x4x6xf32>";
  list.push_back({"", "%0 = graph.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>"});
  list.push_back({"", "%0 = graph.constant dense<1.0> : tensor<2x2xf32>"});
  list.push_back({"", "%0 = graph.iota {dim = 1 : i64} : tensor<4x6xi64>"});
  list.push_back({"%x: tensor<6x1xf32>",
                  "%0 = graph.broadcast %x {dims = array<i64: 1, 2>} : (tensor<6x1xf32>) -> tensor<4x6x5xf32>"});
  for (const char *to : {"8x6", "2x24", "48", "2x2x2x6", "6x8", "3x16"})
    list.push_back({x3, std::string("%0 = graph.reshape %x : (tensor<2x4x6xf32>) -> tensor<") + to + "xf32>"});
  list.push_back({x3, "%0 = graph.transpose %x {permutation = array<i64: 0, 2, 1>} : (tensor<2x4x6xf32>) -> "
                      "tensor<2x6x4xf32>"});
  list.push_back({x3, "%0 = graph.transpose %x {permutation = array<i64: 2, 0, 1>} : (tensor<2x4x6xf32>) -> "
                      "tensor<6x2x4xf32>"});
  list.push_back({x3, "%0 = graph.slice %x {starts = array<i64: 0, 3, 1>, steps = array<i64: 1, -1, 2>} : "
                      "(tensor<2x4x6xf32>) -> tensor<2x4x3xf32>"});
  list.push_back({x3, "%0 = graph.pad %x {low = array<i64: 0, 0, 1>, steps = array<i64: 1, 1, 2>, value = 0.0 : f64} : "
                      "(tensor<2x4x6xf32>) -> tensor<2x4x13xf32>"});
  list.push_back({x3 + ", %y: tensor<2x3x6xf32>",
                  "%0 = graph.concat %x, %y {dim = 1 : i64} : (tensor<2x4x6xf32>, tensor<2x3x6xf32>) -> "
                  "tensor<2x7x6xf32>"});

  list.push_back({x3 + ", %y: tensor<2x5x6xf32>",
                  "%0 = graph.matmul %x, %y {transpose_rhs} : (tensor<2x4x6xf32>, tensor<2x5x6xf32>) -> "
                  "tensor<2x4x5xf32>"});
  std::string conv = " {strides = array<i64: 2, 1>, dilations = array<i64: 1, 1>, pads_low = array<i64: 1, 0>, "
                     "pads_high = array<i64: 1, 0>, groups = 1 : i64} : ";
  std::string image = "tensor<2x4x8x8xf32>", filter = "tensor<6x4x3x3xf32>", out = "tensor<2x6x4x6xf32>";
  list.push_back({"%x: " + image + ", %f: " + filter,
                  "%0 = graph.conv %x, %f" + conv + "(" + image + ", " + filter + ") -> " + out});
  list.push_back({"%g: " + out + ", %f: " + filter,
                  "%0 = graph.conv_input_grad %g, %f" + conv + "(" + out + ", " + filter + ") -> " + image});
  list.push_back({"%x: " + image + ", %g: " + out,
                  "%0 = graph.conv_filter_grad %x, %g" + conv + "(" + image + ", " + out + ") -> " + filter});

  std::string rows = "tensor<3xi64>";
  list.push_back({"%x: " + t + ", %i: " + rows,
                  "%0 = graph.gather %x, %i {dim = 0 : i64} : (" + t + ", " + rows + ") -> tensor<3x6xf32>"});
  list.push_back(
      {"%x: " + t + ", %i: " + rows + ", %u: tensor<3x6xf32>",
       "%0 = graph.scatter_add %x, %i, %u {dim = 0 : i64} : (" + t + ", " + rows + ", tensor<3x6xf32>) -> " + t});
  std::string some = "tensor<4x2xi64>", values = "tensor<4x2xf32>";
  list.push_back({"%x: " + t + ", %i: " + some,
                  "%0 = graph.gather_elements %x, %i {dim = 1 : i64} : (" + t + ", " + some + ") -> " + values});
  list.push_back({"%x: " + t + ", %i: " + some + ", %u: " + values,
                  "%0 = graph.scatter_elements %x, %i, %u {dim = 1 : i64, combine = #graph<combine assign>} : (" + t +
                      ", " + some + ", " + values + ") -> " + t});
  std::string nd = "tensor<4x3x1xi64>", slices = "tensor<4x3xf32>";
  list.push_back({"%x: " + t + ", %i: " + nd,
                  "%0 = graph.gather_nd %x, %i {batch_dims = 1 : i64} : (" + t + ", " + nd + ") -> " + slices});
  list.push_back({"%x: " + t + ", %i: " + nd + ", %u: " + slices,
                  "%0 = graph.scatter_nd %x, %i, %u {batch_dims = 1 : i64, combine = #graph<combine add>} : (" + t +
                      ", " + nd + ", " + slices + ") -> " + t});
  list.push_back({"%x: " + t, "%0 = graph.cumsum %x {dim = 1 : i64} : (" + t + ") -> " + t});
  list.push_back({"%x: " + t, "%0:2 = graph.top_k %x {k = 2 : i64, dim = 1 : i64} : (" + t + ") -> (" + values + ", " +
                                  some + ")"});

  std::string scale = "tensor<6xf32>", two = "(" + t + ", " + scale + ", " + scale + ") -> ";
  list.push_back({"%x: " + t, "%0 = graph.softmax %x {dim = 1 : i64} : (" + t + ") -> " + t});
  list.push_back({"%x: " + t, "%0 = graph.softmax %x {dim = 1 : i64, safe} : (" + t + ") -> " + t});
  list.push_back({"%x: " + t, "%0 = graph.log_softmax %x {dim = 0 : i64} : (" + t + ") -> " + t});
  list.push_back({"%x: " + t + ", %s: " + scale + ", %b: " + scale,
                  "%0 = graph.layer_norm %x, %s, %b {dim = 1 : i64, epsilon = 1.0e-5 : f64} : " + two + t});
  list.push_back(
      {"%x: " + t + ", %s: " + scale,
       "%0 = graph.rms_norm %x, %s {dim = 1 : i64, epsilon = 1.0e-5 : f64} : (" + t + ", " + scale + ") -> " + t});
  list.push_back({"%x: " + t + ", %s: " + scale + ", %b: " + scale,
                  "%0:3 = graph.batch_norm %x, %s, %b {dim = 1 : i64, epsilon = 1.0e-5 : f64} : " + two + "(" + t +
                      ", " + scale + ", " + scale + ")"});
  list.push_back({"%x: " + t + ", %l: tensor<4xi64>",
                  "%0 = graph.cross_entropy %x, %l : (" + t + ", tensor<4xi64>) -> tensor<4xf32>"});

  std::string pool = "window = array<i64: 1, 1, 3, 2>, strides = array<i64: 1, 1, 2, 2>, "
                     "dilations = array<i64: 1, 1, 1, 1>, pads_low = array<i64: 0, 0, 1, 0>} : ";
  std::string pooled = "tensor<2x4x4x4xf32>", position = "tensor<2x4x4x4xi32>";
  list.push_back(
      {"%x: " + image, "%0:2 = graph.max_pool %x {" + pool + "(" + image + ") -> (" + pooled + ", " + position + ")"});
  list.push_back({"%g: " + pooled + ", %p: " + position,
                  "%0 = graph.max_pool_grad %g, %p {" + pool + "(" + pooled + ", " + position + ") -> " + image});
  list.push_back({"%x: " + image, "%0 = graph.sum_pool %x {" + pool + "(" + image + ") -> " + pooled});
  list.push_back({"%g: " + pooled, "%0 = graph.sum_pool_grad %g {" + pool + "(" + pooled + ") -> " + image});

  for (const char *element : {"f32", "bf16"}) { // decomposed, and computed by a library
    auto tensor = [&](std::string shape) { return "tensor<" + shape + "x" + element + ">"; };
    std::string q = tensor("2x6x4x8"), k = tensor("2x10x4x8"), stats = "tensor<2x4x6xf32>",
                bias = "tensor<2x1x6x10xf32>";
    std::string operands = "%q: " + q + ", %k: " + k + ", %v: " + k + ", %b: " + bias, types = q + ", " + k + ", " + k;
    list.push_back({operands, "%0:2 = graph.attention %q, %k, %v {causal, scale = 0.5 : f64} : (" + types + ") -> (" +
                                  q + ", " + stats + ")"});
    list.push_back({operands, "%0:2 = graph.attention %q, %k, %v, %b {scale = 0.5 : f64} : (" + types + ", " + bias +
                                  ") -> (" + q + ", " + stats + ")"});
    list.push_back({operands + ", %o: " + q + ", %s: " + stats + ", %g: " + q,
                    "%0:3 = graph.attention_grad %q, %k, %v, %o, %s, %g {causal, scale = 0.5 : f64} : (" + types +
                        ", " + q + ", " + stats + ", " + q + ") -> (" + types + ")"});
  }

  std::string seed = "%s: tensor<i64>, %n: tensor<i64>";
  list.push_back(
      {seed, "%0 = graph.random_uniform %s, %n {stream = 1 : i64} : (tensor<i64>, tensor<i64>) -> tensor<4x6xf32>"});
  list.push_back({"%x: " + t + ", " + seed, "%0 = graph.dropout %x, %s, %n {ratio = 0.5 : f64, stream = 1 : i64} : (" +
                                                t + ", tensor<i64>, tensor<i64>) -> " + t});
  return list;
}

/// A fixture that parses a function around a sample.
class SampleTest : public testing::Test {
protected:
  SampleTest() {
    mlir::DialectRegistry registry;
    compiler::registerAll(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }

  /// The sample's operation; null if it does not parse or verify.
  mlir::Operation *parse(const Sample &sample) {
    std::string text = "func.func @f(" + sample.arguments + ") {\n" + sample.operation + "\nreturn\n}";
    module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    return module ? &(*module->getOps<mlir::func::FuncOp>().begin()).getBody().front().front() : nullptr;
  }

  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

} // namespace divisi::test
