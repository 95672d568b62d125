// Calls in dumps that somebody may have edited: what a service would read and write is compared with the tensors.
#include "codegen/Emit/CheckCalls.h"
#include "Samples.h"

using namespace mlir;
using namespace divisi;
using namespace divisi::test;

namespace {
class CheckCalls : public SampleTest {
protected:
  /// What is said of `call`, the body of a task of four devices; empty if nothing is.
  std::string said(const std::string &call) {
    std::string message;
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) { message += diagnostic.str() + "\n"; });
    auto module = parseSourceString<ModuleOp>(
        R"(#mesh = #dist.mesh<"data" = 2, "model" = 2>
           func.func @train(%a: tensor<4x6xf32>, %b: tensor<6x5xf32>, %c: tensor<5xf32>, %h: tensor<2x4x2x8xbf16>,
                            %x: tensor<2x4x9x9xf32>, %w: tensor<6x2x3x3xf32>, %n: tensor<8xf32>)
               attributes {dist.partitioned = #mesh} {)" +
            call + "\nreturn\n}",
        &context);
    bool fits = module && succeeded(codegen::checkCalls(*module));
    EXPECT_EQ(fits, message.empty());
    return message;
  }
  void expectRefusal(const std::string &call, const std::string &words) {
    std::string message = said(call);
    EXPECT_NE(message.find(words), std::string::npos) << call << "\nsays: " << message;
  }
  /// A call as it is, and with each of some parameters replaced.
  void check(const std::string &service, std::vector<int64_t> params, const std::string &operands,
             const std::string &types, const std::vector<std::array<int64_t, 2>> &wrong) {
    auto text = [&] {
      std::string list;
      for (int64_t word : params)
        list += (list.empty() ? "" : ", ") + std::to_string(word);
      return "%r:" + std::to_string(1 + std::count(types.begin() + (long)types.find("->"), types.end(), ',')) +
             " = exec.call \"" + service + "\"(" + operands + ") [" + list + "] {offsets = array<i64>} : " + types;
    };
    EXPECT_EQ(said(text()), "") << text();
    for (auto [at, value] : wrong) {
      int64_t right = std::exchange(params[at], value);
      EXPECT_NE(said(text()).find("has parameters"), std::string::npos) << text();
      params[at] = right;
    }
    params.pop_back();
    expectRefusal(text(), "has parameters that no '" + service + "' can have");
  }
};

constexpr int64_t large = int64_t(1) << 40;

TEST_F(CheckCalls, Products) {
  // batch0, batch1, m, n, k, transposes, lda, ldb, ldc, strides, type, result_type, accumulate, tf32, workspace
  check("divisi_gemm", {1, 1, 4, 5, 6, 0, 0, 6, 5, 5, 0, 24, 0, 30, 0, 20, 0, 0, 0, 0, 0}, "%a, %b",
        "(tensor<4x6xf32>, tensor<6x5xf32>) -> (tensor<4x5xf32>)",
        {{0, -1}, {2, 5}, {3, 6}, {4, 7}, {4, -1}, {5, 1}, {7, large}, {9, 6}, {16, 1}, {16, 9}, {17, 1}, {2, large}});
  // m, n, k, transposes, type, tf32, epilogue, has_operand, has_second, workspace
  check("divisi_gemm_epilogue", {4, 5, 6, 0, 0, 0, 0, 2, 1, 1, 0}, "%a, %b, %c",
        "(tensor<4x6xf32>, tensor<6x5xf32>, tensor<5xf32>) -> (tensor<4x5xf32>, tensor<4x5xf32>)",
        {{0, 5}, {1, 6}, {2, 7}, {0, -1}, {5, 1}, {7, 4}, {7, 7}, {7, 0}, {7, -1}});
  expectRefusal(
      "%r:2 = exec.call \"divisi_gemm_epilogue\"(%a, %b) [4, 5, 6, 0, 0, 0, 0, 2, 1, 1, 0] : (tensor<4x6xf32>, "
      "tensor<6x5xf32>) -> (tensor<4x5xf32>, tensor<4x5xf32>)",
      "expected 5 operands and results, got 4");
}

TEST_F(CheckCalls, Convolutions) {
  // spatial, batch, groups, in_channels, out_channels, in, out, kernel, stride, dilation, pads, channels_last, type
  std::vector<int64_t> params = {2, 2, 2, 4, 6, 9, 9, 0, 9, 9, 0, 3, 3, 0, 1,
                                 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 0, 0, 0, 0};
  check("divisi_conv_forward", params, "%x, %w", "(tensor<2x4x9x9xf32>, tensor<6x2x3x3xf32>) -> (tensor<2x6x9x9xf32>)",
        {{0, 4},
         {0, 0},
         {1, 3},
         {2, 0},
         {2, 3},
         {3, 8},
         {4, 8},
         {5, 10},
         {8, 8},
         {11, 5},
         {14, 0},
         {17, 0},
         {20, 2},
         {20, large}});
  expectRefusal(
      "%r = exec.call \"divisi_conv_filter_grad\"(%x, %x) [2, 2, 2, 4, 6, 9, 9, 0, 9, 9, 0, 3, 3, 0, 1, 1, 0, 1, "
      "1, 0, 1, 1, 0, 1, 1, 0, 0, 0, 0, 0] : (tensor<2x4x9x9xf32>, tensor<2x4x9x9xf32>) -> tensor<6x2x3x3xf32>",
      "has parameters for 3888 bytes in operand 1, which has 2592");
}

TEST_F(CheckCalls, AttentionAndTopK) {
  // batch, heads, queries, keys, depth, causal, has_bias, bias's sizes, scale, type, workspace
  check(
      "divisi_attention", {2, 2, 4, 4, 8, 1, 0, 0, 0, 0, 0, 2, 0}, "%h, %h, %h",
      "(tensor<2x4x2x8xbf16>, tensor<2x4x2x8xbf16>, tensor<2x4x2x8xbf16>) -> (tensor<2x4x2x8xbf16>, tensor<2x2x4xf32>)",
      {{0, 3}, {1, 3}, {2, 5}, {3, 5}, {4, 16}, {4, -8}, {6, 1}, {11, 1}, {11, 4}});
  // outer, extent, inner, k, largest, kind, width
  check("divisi_top_k", {4, 6, 1, 2, 1, 0, 4}, "%a", "(tensor<4x6xf32>) -> (tensor<4x2xf32>, tensor<4x2xi64>)",
        {{0, 5}, {1, 7}, {2, 2}, {3, 7}, {3, 3}, {5, 3}, {6, 3}, {6, 8}});
}

TEST_F(CheckCalls, Communication) {
  // id, kind, reduction, type, backward, shift, axis_count, axes, part_count, [outer, first, middle, second, inner]
  check("divisi_collective", {0, 1, 0, 0, 0, 0, 2, 0, 1, 0, 0, 0, 0, 1, 1, 8, 1, 1, 1}, "%n",
        "(tensor<8xf32>) -> (tensor<32xf32>)",
        {{1, 9},
         {3, 1},
         {3, 9},
         {6, 7},
         {6, -1},
         {7, 2},
         {8, -1},
         {13, 2},
         {13, 0},
         {13, -1},
         {15, 9},
         {15, large},
         {16, -1}});
  check("divisi_collective", {0, 2, 0, 0, 0, 0, 2, 0, 1, 0, 0, 0, 0, 1, 1, 8, 1, 1, 1}, "%n",
        "(tensor<8xf32>) -> (tensor<2xf32>)", {{6, 1}, {15, 9}, {15, 6}});
  check("divisi_receive", {3, 1, 32}, "", "() -> (tensor<8xf32>)", {{2, 33}, {2, -1}});
}

TEST_F(CheckCalls, Services) {
  expectRefusal("%r = exec.call \"system\"(%n) [] : (tensor<8xf32>) -> tensor<8xf32>",
                "calls a service that there is not: 'system'");
}
} // namespace
