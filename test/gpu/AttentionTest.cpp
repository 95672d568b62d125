// Attention as the runtime requests it from cuDNN, on the fake GPU (fake/), compared with its definition.
#include "runtime/devices/cuda/Attention.h"
#include "test/gpu/GpuTest.h"
#include "test/runtime/devices/AttentionReference.h"

#include <algorithm>
#include <cstring>
#include <limits>

using namespace divisi::runtime;
using namespace divisi::runtime::cuda;
using namespace divisi::test;

namespace {

AttentionReference sampleOf(const DivisiAttention &a) {
  AttentionReference sample(a);
  if (a.has_bias) // a masked key
    for (size_t i = static_cast<size_t>(a.keys) - 1; a.keys > 2 && i < sample.bias.size();
         i += static_cast<size_t>(a.keys))
      sample.bias[i] = -std::numeric_limits<float>::infinity();
  sample.forward();
  sample.backward();
  return sample;
}

void expectNear(const char *what, const Numbers &expected, const Numbers &found, double tolerance) {
  double worst = 0, scale = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    worst = std::fmax(worst, std::isnan(found[i]) ? 1e9 : std::fabs(found[i] - expected[i]));
    scale = std::fmax(scale, std::fabs(expected[i]));
  }
  EXPECT_LE(worst, tolerance * std::fmax(scale, 1)) << what;
}
void expectNear(const char *what, const Numbers &expected, const uint16_t *found, int64_t type) {
  double rounding = type == DIVISI_F16 ? 0x1p-9 : 0x1p-6;
  expectNear(what, expected, widen({found, found + expected.size()}, type), rounding);
}

class AttentionTest : public GpuTest {
protected:
  /// `workspace`: bytes of the caller's workspace for the gradient, 64 bytes after a multiple of 256. Returns whether
  /// it was used.
  bool check(DivisiAttention a, int64_t workspace) {
    AttentionReference s = sampleOf(a);
    Attention attention(driver, stream);
    Arena arena(driver);
    auto put = [&](const Numbers &values) { return arena.put(narrow(values, a.type)); };
    std::vector<void *> buffers = {put(s.q), put(s.k), put(s.v)};
    if (a.has_bias)
      buffers.push_back(arena.put(s.bias));
    auto *o = arena.space<uint16_t>(s.o.size());
    auto *stats = arena.space<float>(s.stats.size());
    auto *dO = put(s.grad), *dQ = arena.space<uint16_t>(s.q.size()), *dK = arena.space<uint16_t>(s.k.size()),
         *dV = arena.space<uint16_t>(s.v.size());
    DivisiAttention forward = a, gradient = a;
    gradient.workspace = workspace;
    buffers.insert(buffers.end(), {o, stats, dO, dQ, dK, dV});
    while (addressOf(arena.place(0)) % 256 != 64)
      arena.place(1);
    auto bytes = static_cast<size_t>(workspace);
    const std::vector<float> mark = {1234};
    char *space = arena.place(bytes), *end = space + bytes;
    arena.put(mark);
    std::memset(space, 0x77, bytes);
    if (workspace > 0)
      buffers.push_back(space);
    auto compute = [&] { // forward uses the first ones of the gradient's buffers
      attention.compute(AttentionKind::Forward, forward, buffers.data());
      attention.compute(AttentionKind::Gradient, gradient, buffers.data());
    };
    compute(); // makes the plans
    replay(compute, [&] {
      for (auto [at, like] : {std::pair{o, &s.o}, {dQ, &s.q}, {dK, &s.k}, {dV, &s.v}})
        std::memset(at, 0xFF, 2 * like->size());
    });
    expectNear("o", s.o, o, a.type);
    expectNear("stats", s.stats, Numbers(stats, stats + s.stats.size()), 1e-5);
    expectNear("dq", s.dq, dQ, a.type);
    expectNear("dk", s.dk, dK, a.type);
    expectNear("dv", s.dv, dV, a.type);
    EXPECT_EQ(std::memcmp(end, mark.data(), sizeof(float)), 0) << "what lies behind the workspace";
    return std::any_of(space, end, [](char byte) { return byte != 0x77; });
  }
};

DivisiAttention of(int64_t batch, int64_t heads, int64_t queries, int64_t keys, int64_t depth, int64_t type) {
  return describeAttention({batch, heads, queries, keys, depth}, /*causal=*/false, type);
}
} // namespace

TEST_F(AttentionTest, IsWhatItIsDefinedAs) {
  for (int64_t type : {DIVISI_BF16, DIVISI_F16})
    for (bool causal : {false, true}) {
      DivisiAttention square = of(2, 3, 16, 16, 8, type), wide = of(1, 2, 5, 33, 16, type),
                      high = of(2, 1, 40, 7, 24, type);
      for (DivisiAttention a : {square, wide, high}) {
        SCOPED_TRACE(testing::Message() << "type " << type << " causal " << causal << " queries " << a.queries);
        a.causal = causal;
        check(a, 0);
      }
    }
}

TEST_F(AttentionTest, AddsBiasOfEveryShape) {
  for (int64_t dims = 0; dims < 8; ++dims) {
    SCOPED_TRACE(dims);
    DivisiAttention a = of(2, 3, 12, 10, 8, dims % 2 ? DIVISI_F16 : DIVISI_BF16);
    a.has_bias = 1;
    a.bias_batch = dims & 1 ? a.batch : 1;
    a.bias_heads = dims & 2 ? a.heads : 1;
    a.bias_queries = dims & 4 ? a.queries : 1;
    a.causal = dims == 5;
    check(a, 0);
  }
}

TEST_F(AttentionTest, UsesTheWorkspaceIfItIsLargeEnough) {
  int64_t own = 512, library = 2 * 2 * 2 * 128 * 64 + 256, skipped = 192;
  DivisiAttention a = of(2, 2, 24, 24, 16, DIVISI_BF16);
  EXPECT_TRUE(check(a, own + library + skipped));
  EXPECT_FALSE(check(a, own + library + skipped - 64));
  EXPECT_FALSE(check(a, 64));
}

TEST_F(AttentionTest, RefusesWhatCudnnHasNot) {
  EXPECT_THROW(check(of(1, 1, 8, 8, 12, DIVISI_BF16), 0), std::runtime_error);
  setenv("DIVISI_FAKE_CUDNN_VERSION", "91501", 1);
  EXPECT_THROW(Attention(driver, stream), std::runtime_error);
  unsetenv("DIVISI_FAKE_CUDNN_VERSION");
}
