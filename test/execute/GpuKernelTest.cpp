// The results of kernels for GPUs on an emulator, compared with those of the same kernels for this processor. With
// DIVISI_INTERPRET_PTX=90 the emulator interprets their PTX for sm_90.
#include "codegen/Cuda/Ptx.h"
#include "codegen/Emit/Program.h"
#include "dialects/Graph/Graph.h"
#include "test/execute/GpuEmulator.h"
#include "test/execute/JitContext.h"
#include "test/execute/PtxEmulator.h"
#include "test/passes/Planning/Unwrap.h"

#include <gtest/gtest.h>

#include <bit>
#include <fstream>
#include <numeric>

using namespace mlir;
using namespace divisi;
using namespace divisi::compiler;
using namespace divisi::test;
using divisi::test::unwrap;

namespace {

std::string replaced(std::string text, const std::string &from, const std::string &to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

/// Kernels for each way in which threads share work (codegen/Cuda/Mapping.h), with numbers of rows that divide and that
/// do not.
std::vector<GradientSample> shapes() {
  std::vector<GradientSample> all;
  auto one = [&](const std::string &op, const std::vector<std::string> &in, const std::string &out,
                 const std::string &attributes) { all.push_back(sample(op, in, out, attributes)); };
  one("broadcast", {"260xf64"}, "300x260xf64", "dims = array<i64: 1>"); // four elements a thread
  one("broadcast", {"7xf64"}, "301x7xf64", "dims = array<i64: 1>");     // one
  one("broadcast", {"7xf64"}, "10004x7xf64", "dims = array<i64: 1>");   // four of several rows
  one("broadcast", {"4000xf64"}, "4000x49xf64", "dims = array<i64: 0>"); // the same, of kernels' rows
  one("transpose", {"130x513xf64"}, "513x130xf64", "permutation = array<i64: 1, 0>");
  // A warp, a block, temporaries in global memory, and rows that do not begin where a load of 16 bytes may.
  for (const char *columns : {"33", "700", "1025", "1500", "13000", "17001"})
    for (const char *op : {"softmax", "log_softmax"}) {
      std::string type = std::string("5x") + columns + "xf64";
      one(op, {type}, type, "dim = 1 : i64");
    }
  for (const char *type : {"64x19xf64", "66x7xf64", "24x40xf64"}) { // a part of a warp, if all parts have a row
    one("softmax", {type}, type, "dim = 1 : i64");
    one("log_softmax", {type}, type, "dim = 1 : i64");
  }
  one("layer_norm", {"9x768xf64", "768xf64", "768xf64"}, "9x768xf64", "dim = 1 : i64, epsilon = 1.0e-5 : f64");
  one("rms_norm", {"3x2048xf64", "2048xf64"}, "3x2048xf64", "dim = 1 : i64, epsilon = 1.0e-5 : f64");
  one("cross_entropy", {"130x31xf64", "130xi64"}, "130xf64", "");
  one("cross_entropy", {"2x9000xf64", "2xi64"}, "2xf64", "");
  one("reduce_sum", {"600x70xf64"}, "70xf64", "dims = array<i64: 0>");
  one("reduce_sum", {"8192x72xf64"}, "72xf64", "dims = array<i64: 0>");          // four columns a thread
  one("reduce_max", {"4096x70xf64"}, "70xf64", "dims = array<i64: 0>");          // two
  one("reduce_sum", {"128x3x32x32xf64"}, "3xf64", "dims = array<i64: 0, 2, 3>"); // a block for each part and channel
  for (const char *image :
       {"7x7", "7x9", "5x10"}) { // a warp, whose pieces have elements of other channels at both ends
    std::string type = std::string("64x6x") + image + "xf64";
    one("reduce_sum", {type}, "6xf64", "dims = array<i64: 0, 2, 3>");
    one("reduce_max", {type}, "6xf64", "dims = array<i64: 0, 2, 3>");
  }
  one("reduce_sum", {"4x66000xf64"}, "66000xf64", "dims = array<i64: 0>"); // four results a thread
  one("reduce_max", {"6x9x200xf64"}, "6x9xf64", "dims = array<i64: 2>");
  one("reduce_sum", {"8x6x15x15xf64"}, "6xf64", "dims = array<i64: 0, 2, 3>");
  one("reduce_min", {"50000xf64"}, "f64", "dims = array<i64: 0>");
  for (const char *x : {"6200x19xf64", "40000x3xf64", "4099x21xf64"}) { // rows side by side, and those that are left
    std::string columns = std::string(x).substr(std::string(x).find('x') + 1);
    one("reduce_sum", {x}, columns, "dims = array<i64: 0>");
    one("reduce_max", {x}, columns, "dims = array<i64: 0>");
  }
  one("reduce_max", {"65537xf64"}, "f64", "dims = array<i64: 0>");
  one("reduce_sum", {"4099x3x5xf64"}, "3xf64", "dims = array<i64: 2, 0>");
  all.push_back({"concat", function({"64x4x16xf64", "64x64xf64"}, "64x128xf64",
                                    "%0 = graph.reshape %a : (tensor<64x4x16xf64>) -> tensor<64x64xf64>\n"
                                    "%r = graph.concat %0, %b {dim = 1 : i64} : (tensor<64x64xf64>, tensor<64x64xf64>) "
                                    "-> tensor<64x128xf64>")});
  // Several operands of a type, some of which are converted: of those that are alike one element is loaded. The product reads the whole result.
  all.push_back({"concat", function({"512x64xf64", "512x32xf64", "512x96xf64", "512x64xf64", "256x2xf64"}, "512x2xf64",
                                    "%0 = graph.cast %b : (tensor<512x32xf64>) -> tensor<512x32xf32>\n"
                                    "%1 = graph.cast %0 : (tensor<512x32xf32>) -> tensor<512x32xf64>\n"
                                    "%2 = graph.cast %c : (tensor<512x96xf64>) -> tensor<512x96xf32>\n"
                                    "%3 = graph.cast %2 : (tensor<512x96xf32>) -> tensor<512x96xf64>\n"
                                    "%4 = graph.concat %a, %1, %3, %d {dim = 1 : i64} : (tensor<512x64xf64>, tensor<512x32xf64>, "
                                    "tensor<512x96xf64>, tensor<512x64xf64>) -> tensor<512x256xf64>\n"
                                    "%r = graph.matmul %4, %e : (tensor<512x256xf64>, tensor<256x2xf64>) -> tensor<512x2xf64>")});
  all.push_back({"concat", function({"128x512xf64", "128x512xf64", "256x2xf64"}, "512x2xf64", // the innermost index is another one's
                                    "%0 = graph.concat %a, %b {dim = 0 : i64} : (tensor<128x512xf64>, tensor<128x512xf64>) -> tensor<256x512xf64>\n"
                                    "%1 = graph.transpose %0 {permutation = array<i64: 1, 0>} : (tensor<256x512xf64>) -> tensor<512x256xf64>\n"
                                    "%2 = graph.neg %1 : tensor<512x256xf64>\n"
                                    "%r = graph.matmul %2, %c : (tensor<512x256xf64>, tensor<256x2xf64>) -> tensor<512x2xf64>")});
  all.push_back({"concat", function({"1024x64xf64", "1024x32xui8", "1024x32xi8", "128x2xf64"}, "1024x2xf64", // alike but for the sign
                                    "%0 = graph.cast %b : (tensor<1024x32xui8>) -> tensor<1024x32xf64>\n"
                                    "%1 = graph.cast %c : (tensor<1024x32xi8>) -> tensor<1024x32xf64>\n"
                                    "%2 = graph.concat %a, %0, %1 {dim = 1 : i64} : (tensor<1024x64xf64>, tensor<1024x32xf64>, "
                                    "tensor<1024x32xf64>) -> tensor<1024x128xf64>\n"
                                    "%r = graph.matmul %2, %d : (tensor<1024x128xf64>, tensor<128x2xf64>) -> tensor<1024x2xf64>")});
  all.push_back({"batch_norm", function({"8x6x9x9xf64", "6xf64", "6xf64"}, "8x6x9x9xf64",
                                        "%r, %m, %v = graph.batch_norm %a, %b, %c {dim = 1 : i64, epsilon = 1.0e-5 : "
                                        "f64} : (tensor<8x6x9x9xf64>, tensor<6xf64>, tensor<6xf64>) -> "
                                        "(tensor<8x6x9x9xf64>, tensor<6xf64>, tensor<6xf64>)")});
  all.push_back(
      {"batch_norm", function({"16x84x7x7xf64", "84xf64", "84xf64"}, "16x84x7x7xf64", // four, also of two rows
                              "%r, %m, %v = graph.batch_norm %a, %b, %c {dim = 1 : i64, epsilon = 1.0e-5 : "
                              "f64} : (tensor<16x84x7x7xf64>, tensor<84xf64>, tensor<84xf64>) -> "
                              "(tensor<16x84x7x7xf64>, tensor<84xf64>, tensor<84xf64>)")});
  all.push_back({"batch_norm", function({"8x20x9x16xf64", "16xf64", "16xf64"}, "8x20x9x16xf64", // channels last
                                        "%r, %m, %v = graph.batch_norm %a, %b, %c {dim = 3 : i64, epsilon = 1.0e-5 : "
                                        "f64} : (tensor<8x20x9x16xf64>, tensor<16xf64>, tensor<16xf64>) -> "
                                        "(tensor<8x20x9x16xf64>, tensor<16xf64>, tensor<16xf64>)")});
  // Gradients of windows, four or two elements a thread: padded or not, of elements that are whole strides or not.
  auto pool = [&](bool isMax, const std::string &x, const std::string &result, int window, int stride, int dilation,
                  int low) {
    auto both = [](int number) {
      return "array<i64: 1, 1, " + std::to_string(number) + ", " + std::to_string(number) + ">";
    };
    std::string from = "2x16x" + x + "xf64", to = "2x16x" + result, low2 = std::to_string(low);
    std::string attributes = " {window = " + both(window) + ", strides = " + both(stride) +
                             ", dilations = " + both(dilation) + ", pads_low = array<i64: 0, 0, " + low2 + ", " + low2 +
                             ">} : (tensor<" + from + ">) -> ";
    std::string name = isMax ? "max_pool" : "sum_pool", type = "tensor<" + to + "xf64>";
    all.push_back(
        {name, function({from}, to + "xf64",
                        (isMax ? "%r, %p = graph.max_pool %a" + attributes + "(" + type + ", tensor<" + to + "xi32>)"
                               : "%r = graph.sum_pool %a" + attributes + type))});
  };
  pool(true, "64x32", "32x16", 3, 2, 1, 1);
  pool(true, "64x32", "64x32", 3, 1, 1, 1);
  pool(true, "64x34", "32x17", 3, 2, 1, 1);
  pool(false, "64x32", "32x16", 2, 2, 1, 0);
  pool(false, "64x32", "31x15", 3, 2, 1, 0);
  pool(false, "64x32", "64x32", 3, 1, 2, 2);
  pool(false, "64x32", "21x10", 2, 3, 1, 0);
  // Channels last: several channels a thread, alone and with what has the same rows.
  for (const char *op : {"max_pool", "sum_pool"})
    for (auto [x, y] : {std::pair{"2x64x48x64xf64", "2x32x24x64xf64"}, {"2x64x48x37xf64", "2x32x24x37xf64"}}) {
      std::string tensor = std::string("tensor<") + x + ">", result = std::string("tensor<") + y + ">";
      std::string places = std::string(op) == "max_pool" ? ", " + replaced(result, "f64", "i32") : "";
      std::string body = "%s = graph.relu %a : " + tensor + "\n%r" + (places.empty() ? "" : ", %p") + " = graph." + op +
                         " %s {window = array<i64: 1, 3, 3, 1>, strides = array<i64: 1, 2, 2, 1>, dilations = array<i64: "
                         "1, 1, 1, 1>, pads_low = array<i64: 0, 1, 1, 0>} : (" + tensor + ") -> (" + result + places + ")";
      all.push_back({op, function({x}, y, body)});
    }
  for (auto [x, y] : {std::pair{"2x128x96x3xf64", "2x3x128x96xf64"}, {"1x140x100x5xf64", "1x5x140x100xf64"},
                      {"2x60x100x6xf64", "2x6x60x100xf64"}, {"2x127x95x3xf64", "2x3x127x95xf64"}})
    one("transpose", {x}, y, "permutation = array<i64: 0, 3, 1, 2>"); // its gradient has the channels last
  one("sum_pool", {"2x5x12x12xf64"}, "2x5x1x1xf64",
      "window = array<i64: 1, 1, 12, 12>, strides = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1, 1, 1>, "
      "pads_low = array<i64: 0, 0, 0, 0>");
  one("scatter_add", {"40x70xf64", "50xi64", "50x70xf64"}, "40x70xf64", "dim = 0 : i64");
  one("scatter_add", {"40x72xf64", "7x8xi64", "7x8x72xf64"}, "40x72xf64", "dim = 0 : i64");
  one("scatter_add", {"2x9x3xf64", "16xi64", "2x16x3xf64"}, "2x9x3xf64", "dim = 1 : i64");
  // More indices than a block looks at together, rows of one to many pieces, few and many rows for a block.
  auto scatter = [&](const std::string &op, const std::vector<std::string> &in, const std::string &out,
                     const std::string &attributes, int64_t modulo) {
    one(op, in, out, attributes);
    all.back().modulo = modulo;
  };
  scatter("scatter_add", {"1500x8xf64", "5001xi64", "5001x8xf64"}, "1500x8xf64", "dim = 0 : i64", 1700);
  scatter("scatter_add", {"3x1100xf64", "4096xi64", "4096x1100xf64"}, "3x1100xf64", "dim = 0 : i64", 4);
  scatter("scatter_add", {"2x600x5xf64", "2100xi64", "2x2100x5xf64"}, "2x600x5xf64", "dim = 1 : i64", 41);
  scatter("scatter_add", {"700xf64", "4100xi64", "4100xf64"}, "700xf64", "dim = 0 : i64", 3);
  // Each element compared with the indices, a line of them for a thread, rows of a table, and slices.
  for (std::string combine : {"add", "assign", "mul"}) {
    std::string more = ", combine = #graph<combine " + combine + ">";
    scatter("scatter_elements", {"90x64xf64", "90x2xi64", "90x2xf64"}, "90x64xf64", "dim = 1 : i64" + more, 65);
    scatter("scatter_elements", {"12x30x7xf64", "5x11x7xi64", "5x11x7xf64"}, "12x30x7xf64", "dim = 1 : i64" + more, 31);
    scatter("scatter_elements", {"40x30xf64", "17x25xi64", "17x25xf64"}, "40x30xf64", "dim = 0 : i64" + more, 41);
    scatter("scatter_nd", {"3x20x9xf64", "3x11x1xi64", "3x11x9xf64"}, "3x20x9xf64", "batch_dims = 1 : i64" + more, 21);
  }
  scatter("scatter_elements", {"300xf64", "700xi64", "700xf64"}, "300xf64",
          "dim = 0 : i64, combine = #graph<combine add>", 301);
  scatter("scatter_nd", {"6x20x9xf64", "50x2xi64", "50x9xf64"}, "6x20x9xf64",
          "batch_dims = 0 : i64, combine = #graph<combine add>", 7);
  return all;
}

std::vector<GradientSample> everything() {
  std::vector<GradientSample> all = gradientSamples();
  for (GradientSample &sample : shapes())
    all.push_back(std::move(sample));
  return all;
}

class GpuKernelTest : public testing::TestWithParam<GradientSample> {
protected:
  template <typename T> void fill(JitFunction::Tensor &tensor, const GradientSample &sample, uint64_t &seed) {
    auto type = cast<RankedTensorType>(tensor.type);
    bool isFloat = isa<FloatType>(type.getElementType());
    tensor.bytes.resize(graph::bytesOf(type));
    for (int64_t k = 0; k < type.getNumElements(); ++k)
      if (isFloat)
        ((T *)tensor.bytes.data())[k] = (T)(sample.low + (sample.high - sample.low) * number(seed++));
      else if (type.getElementTypeBitWidth() == 8)
        tensor.bytes[k] = (char)(k * 37); // also such that have a sign
      else
        ((int64_t *)tensor.bytes.data())[k] = k % sample.modulo;
  }

  /// For test/gpu/ptx.py.
  void writePtx(ModuleOp kernels, const std::string &folder) {
    std::string error, name = testing::UnitTest::GetInstance()->current_test_info()->name();
    auto texts = unwrap(codegen::emitPtx(kernels, codegen::cudaArchitectures), error);
    if (!texts && error.find("libdevice") != std::string::npos)
      return; // without the CUDA Toolkit
    ASSERT_TRUE(texts) << error;
    std::replace(name.begin(), name.end(), '/', '_');
    for (size_t i = 0; i < texts->size(); ++i)
      std::ofstream(folder + "/" + name + "." + std::to_string(codegen::cudaArchitectures[i]) + ".ptx") << (*texts)[i];
  }

  /// The emulator that is asked for; null without the CUDA Toolkit where a kernel needs it.
  std::unique_ptr<CpuLibraries> makeEmulator(ModuleOp exec, const codegen::CudaKernels &kernels) {
    const char *architecture = std::getenv("DIVISI_INTERPRET_PTX");
    if (!architecture)
      return std::make_unique<GpuEmulator>(kernels);
    std::string error;
    auto texts = unwrap(codegen::emitPtx(*kernels.module, {std::atoi(architecture)}), error);
    if (!texts && error.find("libdevice") != std::string::npos)
      return nullptr;
    if (!texts)
      throw std::runtime_error(error);
    return std::make_unique<PtxEmulator>(exec, kernels, texts->front());
  }

  /// Compares kernels for GPUs with those for CPUs, which materialize other values.
  template <typename T> void compare(const std::string &text, double tolerance) {
    auto reference = context.compile(text, /*gradients=*/true);
    ASSERT_TRUE((bool)reference) << llvm::toString(reference.takeError());
    JitFunction &r = **reference;
    uint64_t seed = 0;
    for (auto &input : r.inputs)
      fill<T>(input, GetParam(), seed);
    r.run(&cpu);
    ASSERT_FALSE(cpu.failed()) << cpu.error.message();
    OwningOpRef<ModuleOp> copy;
    auto look = [&](ModuleOp exec) { copy = exec.clone(); };
    auto compiled = context.compile(text, /*gradients=*/true, look, /*forGpu=*/true);
    ASSERT_TRUE((bool)compiled) << llvm::toString(compiled.takeError());
    auto kernels = codegen::lowerToCuda(*copy);
    ASSERT_TRUE(succeeded(kernels));
    if (const char *folder = std::getenv("DIVISI_PTX_FOLDER"))
      writePtx(*kernels->module, folder);
    auto emulator = makeEmulator(*copy, *kernels);
    if (!emulator)
      GTEST_SKIP() << "libdevice is not there";
    JitFunction &f = **compiled;
    for (auto [input, from] : llvm::zip(f.inputs, r.inputs))
      input.bytes = from.bytes;
    const auto &expected = r.outputs;
    gpu.accelerator = emulator.get();
    f.run(&gpu);
    ASSERT_FALSE(gpu.failed()) << gpu.error.message();
    EXPECT_GT(emulator->launches, 0);
    for (size_t i = 0; i < expected.size(); ++i) {
      auto type = cast<RankedTensorType>(expected[i].type);
      if (!isa<FloatType>(type.getElementType())) {
        EXPECT_EQ(expected[i].bytes, f.outputs[i].bytes);
        continue;
      }
      const T *a = (const T *)expected[i].bytes.data(), *b = (const T *)f.outputs[i].bytes.data();
      double largest = 0;
      for (int64_t k = 0; k < type.getNumElements(); ++k)
        largest = std::max(largest, std::abs((double)a[k]));
      for (int64_t k = 0; k < type.getNumElements(); ++k)
        ASSERT_NEAR(a[k], b[k], tolerance * (largest + std::abs(a[k]))) << "result " << i << ", element " << k;
    }
  }

  JitContext context;
  DivisiContext cpu{runtime::configureThreads(1)}, gpu{1};
};

TEST_P(GpuKernelTest, AgreesWithTheCpu) {
  compare<float>(replaced(replaced(GetParam().text, "xf64", "xf32"), "tensor<f64>", "tensor<f32>"), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Ops, GpuKernelTest, testing::ValuesIn(everything()),
                         [](const auto &info) { return info.param.op + "_" + std::to_string(info.index); });

using GpuMappingTest = GpuKernelTest;

TEST_P(GpuMappingTest, AgreesWithTheCpuInDoublePrecision) { compare<double>(GetParam().text, 1e-12); }

INSTANTIATE_TEST_SUITE_P(Shapes, GpuMappingTest, testing::ValuesIn(shapes()),
                         [](const auto &info) { return info.param.op + "_" + std::to_string(info.index); });

/// What programs in 16 bits compute by approximations, for all numbers of bf16.
TEST(GpuApproximations, KeepTheirErrors) {
  struct Case {
    std::string op;
    double (*exact)(double);
    double most;                                        // arguments are up to this
    double (*tolerance)(double argument, double value); // see ApproximateMath.h
  };
  const Case cases[] = {
      {"exp", std::exp, 87, [](double x, double y) { return 8e-8 * (std::abs(x) + 4) * y; }},
      {"tanh", std::tanh, HUGE_VAL, [](double, double) { return 4e-7; }},
      {"erf", std::erf, HUGE_VAL, [](double, double) { return 5e-7; }}, // with 2^x and 1/x that are exact
      {"reciprocal", [](double x) { return 1 / x; }, HUGE_VAL, [](double, double y) { return 2e-7 * std::abs(y); }},
  };
  JitContext context;
  DivisiContext gpu{1};
  for (const Case &one : cases) {
    SCOPED_TRACE(one.op);
    const std::string text = "func.func @forward(%x: tensor<65536xbf16>) -> tensor<65536xf32> {\n%y = graph.cast %x : "
                             "(tensor<65536xbf16>) -> tensor<65536xf32>\n%z = graph." +
                             one.op + " %y : tensor<65536xf32>\nreturn %z : tensor<65536xf32>\n}";
    OwningOpRef<ModuleOp> copy;
    auto compiled = context.compile(
        text, /*gradients=*/false, [&](ModuleOp exec) { copy = exec.clone(); }, true);
    ASSERT_TRUE((bool)compiled) << llvm::toString(compiled.takeError());
    auto kernels = codegen::lowerToCuda(*copy);
    ASSERT_TRUE(succeeded(kernels));
    GpuEmulator emulator(*kernels);
    JitFunction &f = **compiled;
    f.inputs[0].bytes.resize(2 * 65536);
    auto *in = (uint16_t *)f.inputs[0].bytes.data();
    std::iota(in, in + 65536, 0);
    gpu.accelerator = &emulator;
    f.run(&gpu);
    ASSERT_FALSE(gpu.failed()) << gpu.error.message();
    const auto *out = (const float *)f.outputs[0].bytes.data();
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      double x = std::bit_cast<float>(bits << 16), y = one.exact(x);
      if (std::isnan(y)) {
        EXPECT_TRUE(std::isnan(out[bits])) << x;
      } else if (std::abs(x) <= one.most && std::abs(y) < 3e38) {
        ASSERT_NEAR(out[bits], y, one.tolerance(x, y) + 1.2e-38) << x;
      }
    }
  }
}

/// Rows that share more than they have, such as statistics of channels: a thread has pieces of two, unless their number
/// is odd.
TEST(GpuRows, ShareWhatTheyRead) {
  JitContext context;
  DivisiContext gpu{1};
  constexpr int64_t columns = 128, vectors = 10;
  for (int64_t rows : {8192, 8193}) {
    const std::string x = "tensor<" + std::to_string(rows) + "x128xf32>", pair = "tensor<2x128xf32>", vector = "tensor<128xf32>";
    std::string arguments = "%a: " + x, sums, body, last = "%a";
    for (int64_t k = 0; k < vectors; ++k) {
      const std::string number = std::to_string(k);
      arguments += ", %v" + number + ": " + pair;
      sums += "%s" + number + " = graph.reduce_sum %v" + number + " {dims = array<i64: 0>} : (" + pair + ") -> " + vector + "\n";
      body += "%b" + number + " = graph.broadcast %s" + number + " {dims = array<i64: 1>} : (" + vector + ") -> " + x +
              "\n%y" + number + " = graph.add " + last + ", %b" + number + " : " + x + "\n";
      last = "%y" + number;
    }
    const std::string text =
        "func.func @forward(" + arguments + ") -> " + x + " {\n" + sums + body + "return " + last + " : " + x + "\n}";
    OwningOpRef<ModuleOp> copy;
    auto compiled = context.compile(
        text, /*gradients=*/false, [&](ModuleOp exec) { copy = exec.clone(); }, /*forGpu=*/true);
    ASSERT_TRUE((bool)compiled) << llvm::toString(compiled.takeError());
    auto kernels = codegen::lowerToCuda(*copy);
    ASSERT_TRUE(succeeded(kernels));
    GpuEmulator emulator(*kernels);
    JitFunction &f = **compiled;
    for (int64_t k = 0; k <= vectors; ++k) { // whole numbers, whose sums are exact
      f.inputs[k].bytes.resize((k == 0 ? rows * columns : 2 * columns) * sizeof(float));
      auto *in = (float *)f.inputs[k].bytes.data();
      for (size_t i = 0; i < f.inputs[k].bytes.size() / sizeof(float); ++i)
        in[i] = k == 0 ? float(i) : float(i * k);
    }
    gpu.accelerator = &emulator;
    f.run(&gpu);
    ASSERT_FALSE(gpu.failed()) << gpu.error.message();
    const auto *out = (const float *)f.outputs[0].bytes.data();
    for (int64_t i = 0; i < rows * columns; ++i)
      ASSERT_EQ(out[i], float(i + (2 * (i % columns) + columns) * vectors * (vectors + 1) / 2)) << i;
  }
}

/// Top-k on GPUs compares all pairs of elements: NaN is the largest number, equal elements keep their order.
TEST(GpuTopK, OrdersAsTheCpuDoes) {
  JitContext context;
  DivisiContext cpu{runtime::configureThreads(1)};
  const float nan = NAN, inf = INFINITY;
  const std::vector<float> numbers = {1, nan, -inf, 1, inf, -0.0f, 0, nan, -2, -inf, -inf, 3, 3, -nan, inf};
  for (std::string order : {"", ", smallest"})
    for (auto [in, out, where] : {std::tuple("3x5", "3x4", "dim = 1 : i64, k = 4 : i64"),
                                  std::tuple("5x3", "2x3", "dim = 0 : i64, k = 2 : i64"),
                                  std::tuple("15", "15", "dim = 0 : i64, k = 15 : i64")}) {
      std::string x = std::string("tensor<") + in + "xf32>", of = std::string("tensor<") + out;
      std::string types = "(" + of + "xf32>, " + of + "xi64>)";
      std::string text = "func.func @forward(%x: " + x + ") -> " + types + " {\n%v, %i = graph.top_k %x {" + where +
                         order + "} : (" + x + ") -> " + types + "\nreturn %v, %i : " + of + "xf32>, " + of +
                         "xi64>\n}";
      SCOPED_TRACE(text);
      std::vector<std::vector<char>> results[2];
      for (bool forGpu : {false, true}) {
        auto compiled = context.compile(text, /*gradients=*/false, nullptr, forGpu);
        ASSERT_TRUE((bool)compiled) << llvm::toString(compiled.takeError());
        JitFunction &f = **compiled;
        const char *bytes = (const char *)numbers.data();
        f.inputs[0].bytes.assign(bytes, bytes + numbers.size() * sizeof(float));
        f.run(&cpu);
        ASSERT_FALSE(cpu.failed()) << cpu.error.message();
        results[forGpu] = {f.outputs[0].bytes, f.outputs[1].bytes};
      }
      EXPECT_EQ(results[0][1], results[1][1]);
      const auto *a = (const float *)results[0][0].data(), *b = (const float *)results[1][0].data();
      for (size_t k = 0; k < results[0][0].size() / sizeof(float); ++k)
        EXPECT_TRUE(a[k] == b[k] || (std::isnan(a[k]) && std::isnan(b[k]))) << a[k] << " and " << b[k];
    }
}
} // namespace
