#include "runtime/core/Context.h"
#include "runtime/devices/cpu/Vectors.h"
#include "test/runtime/devices/AttentionReference.h"

#include <tuple>

using namespace divisi::runtime;
using namespace divisi::test;

namespace {
/// The results of the services for the operands of `r`: the gradient after the forward pass.
struct Results {
  std::vector<uint16_t> o, dq, dk, dv;
  std::vector<float> stats;
  Status error;

  Results(AttentionReference &r, int threads)
      : o(r.q.size(), 0xffff), dq(o), dk(r.k.size(), 0xffff), dv(dk), stats(r.p.batch * r.p.heads * r.p.queries, NAN) {
    auto q = narrow(r.q, r.p.type), k = narrow(r.k, r.p.type), v = narrow(r.v, r.p.type),
         grad = narrow(r.grad, r.p.type);
    std::vector<void *> operands = {q.data(), k.data(), v.data()};
    if (r.p.has_bias)
      operands.push_back(r.bias.data());
    operands.insert(operands.end(), {o.data(), stats.data()});
    DivisiContext context(threads);
    configureThreads(threads);
    divisi_attention(&context, &r.p, operands.data());
    operands.insert(operands.end(), {grad.data(), dq.data(), dk.data(), dv.data()});
    divisi_attention_grad(&context, &r.p, operands.data());
    error = context.error;
  }
};

void check(AttentionReference r, int threads) {
  r.forward();
  r.backward();
  Results got(r, threads);
  ASSERT_TRUE(succeeded(got.error));
  double unit = roundingOf(r.p.type);
  EXPECT_LT(worstError(got.stats, r.stats), 2e-6);
  EXPECT_LT(worstError(widen(got.o, r.p.type), r.o), 2 * unit);
  EXPECT_LT(worstError(widen(got.dq, r.p.type), r.dq), 3 * unit);
  EXPECT_LT(worstError(widen(got.dk, r.p.type), r.dk), 3 * unit);
  EXPECT_LT(worstError(widen(got.dv, r.p.type), r.dv), 2 * unit);
}

constexpr std::array<int64_t, 5> shapes[] = {{1, 1, 1, 1, 8},    {2, 3, 5, 7, 8},     {2, 1, 9, 4, 16},    {1, 3, 64, 64, 64},
                                             {2, 3, 65, 130, 72}, {1, 1, 150, 40, 64}, {1, 2, 128, 256, 8}, {1, 1, 300, 257, 16}};

class Attention : public testing::TestWithParam<std::tuple<int64_t, bool>> {};
INSTANTIATE_TEST_SUITE_P(All, Attention, testing::Combine(testing::Values(DIVISI_BF16, DIVISI_F16), testing::Bool()));

TEST_P(Attention, MatchesTheDefinition) {
  auto [type, causal] = GetParam();
  for (auto &sizes : shapes)
    for (int threads : {1, 3}) {
      SCOPED_TRACE(testing::PrintToString(sizes));
      check(AttentionReference(describeAttention(sizes, causal, type)), threads);
    }
}

TEST_P(Attention, AddsABiasThatRepeats) {
  auto [type, causal] = GetParam();
  for (int whole = 0; whole < 8; ++whole) {
    DivisiAttention p = describeAttention({2, 3, whole < 4 ? 70 : 140, 33, 16}, causal, type); // one block, and two
    p.has_bias = 1;
    p.bias_batch = whole & 1 ? p.batch : 1, p.bias_heads = whole & 2 ? p.heads : 1;
    p.bias_queries = whole & 4 ? p.queries : 1;
    SCOPED_TRACE(whole);
    check(AttentionReference(p), 2);
  }
}

/// With the vectors of processors without AVX-512, and without AVX2.
TEST_P(Attention, NarrowerVectors) {
  auto [type, causal] = GetParam();
  const Vectors before = vectors;
#ifdef DIVISI_WIDER_VECTORS
  for (bool *width : {&vectors.avx512, &vectors.avx2}) {
    *width = false;
    DivisiAttention p = describeAttention({1, 2, 40, 133, 24}, causal, type);
    p.has_bias = 1;
    check(AttentionReference(p), 2);
  }
#endif
  vectors = before;
}

TEST_P(Attention, HasTheSameBitsOnAnyNumberOfThreads) {
  auto [type, causal] = GetParam();
  for (auto &sizes : {std::array<int64_t, 5>{1, 1, 300, 500, 64}, {2, 3, 130, 200, 72}}) {
    AttentionReference r(describeAttention(sizes, causal, type));
    Results one(r, 1), four(r, 4);
    EXPECT_EQ(one.o, four.o);
    EXPECT_EQ(one.stats, four.stats);
    EXPECT_EQ(one.dq, four.dq);
    EXPECT_EQ(one.dk, four.dk);
    EXPECT_EQ(one.dv, four.dv);
  }
}

/// The gradient is compared with the slope of the definition along every element of every operand.
TEST_P(Attention, GradientIsTheSlope) {
  auto [type, causal] = GetParam();
  DivisiAttention p = describeAttention({1, 2, 3, 4, 8}, causal, type);
  p.has_bias = 1;
  AttentionReference r(p);
  Results got(r, 1);
  ASSERT_TRUE(succeeded(got.error));
  auto compare = [&, type = type](Numbers &x, const std::vector<uint16_t> &gradient) {
    Numbers slopes;
    for (double &element : x) {
      double middle = element, step = 1e-4;
      element = middle + step;
      double above = r.loss();
      element = middle - step;
      slopes.push_back((above - r.loss()) / (2 * step));
      element = middle;
    }
    EXPECT_LT(worstError(widen(gradient, r.p.type), slopes), 3 * roundingOf(type));
  };
  compare(r.q, got.dq);
  compare(r.k, got.dk);
  compare(r.v, got.dv);
}

/// In the first row and the first column 1/3 + 1/6 - 1/2 is not zero in 16 bits.
TEST(AttentionTypes, ProbabilitiesAreRounded) {
  for (int64_t type : {DIVISI_BF16, DIVISI_F16}) {
    DivisiAttention p = describeAttention({1, 1, 3, 3, 8}, false, type);
    p.has_bias = 1, p.bias_queries = 3;
    AttentionReference r(p);
    r.q.assign(24, 0);
    float third = std::log(1 / 3.0f), sixth = std::log(1 / 6.0f), half = std::log(0.5f);
    r.bias = {third, sixth, half, sixth, half, third, half, third, sixth};
    for (size_t i = 0; i < 24; ++i)
      r.v[i] = r.grad[i] = i < 16 ? 1 : -1;
    Results got(r, 1);
    for (auto *bits : {&got.o, &got.dv}) {
      Numbers x = widen(*bits, type);
      x.resize(8);
      EXPECT_EQ(x, Numbers(8, type == DIVISI_BF16 ? 0x1p-10 : -0x1p-13));
    }
  }
}

TEST(AttentionTypes, EmptyShapesAreFine) {
  for (int empty = 0; empty < 5; ++empty)
    for (bool causal : {false, true}) {
      std::array<int64_t, 5> sizes = {2, 3, 5, 7, 8};
      sizes[empty] = 0;
      AttentionReference r(describeAttention(sizes, causal, DIVISI_BF16));
      Results got(r, 2);
      ASSERT_TRUE(succeeded(got.error));
      // Empty sums are zero.
      for (auto *x : {&got.o, &got.dq, &got.dk, &got.dv})
        EXPECT_EQ(*x, std::vector<uint16_t>(x->size(), 0));
      r.forward();
      for (size_t i = 0; i < r.stats.size(); ++i)
        EXPECT_FLOAT_EQ(got.stats[i], r.stats[i]);
    }
}

/// A mask's large number stands for every key of the first query: the mean of all values, with their gradients. Norms lose the number of keys.
TEST(AttentionTypes, AFiniteMaskOfAllKeysIsAMean) {
  for (float masked : {-1e4f, -1e30f, -std::numeric_limits<float>::max()}) {
    DivisiAttention p = describeAttention({1, 1, 3, 5, 8}, false, DIVISI_BF16);
    p.has_bias = 1, p.bias_queries = 3;
    AttentionReference r(p);
    std::fill_n(r.q.begin(), 8, 0.0); // the scores of the first query
    std::fill_n(r.bias.begin(), 5, masked);
    Results got(r, 1);
    std::fill_n(r.bias.begin(), 5, 0.0f); // the same softmax
    r.forward();
    r.backward();
    EXPECT_LT(worstError(widen(got.o, p.type), r.o), 2 * roundingOf(p.type)) << masked;
    EXPECT_LT(worstError(widen(got.dv, p.type), r.dv), 2 * roundingOf(p.type)) << masked;
    EXPECT_LT(worstError(widen(got.dk, p.type), r.dk), 3 * roundingOf(p.type)) << masked;
    EXPECT_LT(worstError(widen(got.dq, p.type), r.dq), 3 * roundingOf(p.type)) << masked;
  }
}

TEST(AttentionTypes, ScoresThatAreInfiniteOrNotNumbersGiveNoNumbers) {
  for (float score : {INFINITY, NAN}) {
    DivisiAttention p = describeAttention({1, 1, 2, 40, 8}, false, DIVISI_BF16);
    p.has_bias = 1, p.bias_queries = 2;
    AttentionReference r(p);
    r.bias[33] = score;
    Results got(r, 1);
    Numbers o = widen(got.o, p.type);
    for (size_t i = 0; i < o.size(); ++i)
      EXPECT_EQ(std::isnan(o[i]), i < 8) << score;
  }
}

TEST(AttentionTypes, AMeanOverNoKeysIsNotANumber) {
  DivisiAttention p = describeAttention({1, 1, 2, 3, 8}, false, DIVISI_F16);
  p.has_bias = 1, p.bias_queries = 2;
  AttentionReference r(p);
  std::fill_n(r.bias.begin(), 3, -INFINITY);
  Results got(r, 1);
  ASSERT_TRUE(succeeded(got.error));
  EXPECT_EQ(got.stats[0], -INFINITY);
  Numbers o = widen(got.o, DIVISI_F16);
  for (size_t i = 0; i < o.size(); ++i)
    EXPECT_EQ(std::isnan(o[i]), i < 8);
}

TEST(AttentionTypes, ImpossibleRequestsFailWithAMessage) {
  DivisiAttention p = describeAttention({1, 1, 2, 2, 8}, false, DIVISI_BF16);
  AttentionReference r(p);
  r.p.type = DIVISI_F32;
  EXPECT_TRUE(failsWith(Results(r, 1).error, "attention: operands must be bf16 or f16"));
  p.has_bias = 1, p.bias_heads = 2;
  r = AttentionReference(p);
  EXPECT_TRUE(failsWith(Results(r, 1).error, "a bias for 1 x 2 x 1 queries does not fit 1 x 1 x 2"));
}
} // namespace
