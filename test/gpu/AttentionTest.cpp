// Attention as the runtime asks cuDNN for it, on the GPU that is not there (fake/), beside its definition.
#include "runtime/devices/cuda/Attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

using namespace divisi::runtime;
using namespace divisi::runtime::cuda;

namespace {
using Numbers = std::vector<double>;

double roundedTo(int64_t type, double value) {
  if (type == DIVISI_F16)
    return static_cast<double>(static_cast<_Float16>(value));
  if (type == DIVISI_F32)
    return static_cast<double>(static_cast<float>(value));
  auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  return std::bit_cast<float>((bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000u);
}

struct Sample {
  DivisiAttention a;
  Numbers q, k, v, bias, o, stats, dO, dQ, dK, dV;
};

size_t rowOf(const DivisiAttention &a, int64_t length, int64_t b, int64_t h, int64_t i) {
  return static_cast<size_t>(((b * length + i) * a.heads + h) * a.depth);
}

/// Attention and its gradient by their definitions, without any rounding between.
void define(Sample &s) {
  const DivisiAttention &a = s.a;
  auto depth = static_cast<size_t>(a.depth);
  auto dot = [&](const Numbers &x, size_t i, const Numbers &y, size_t j) {
    double sum = 0;
    for (size_t d = 0; d < depth; ++d)
      sum += x[i + d] * y[j + d];
    return sum;
  };
  auto add = [&](Numbers &to, size_t i, double factor, const Numbers &x, size_t j) {
    for (size_t d = 0; d < depth; ++d)
      to[i + d] += factor * x[j + d];
  };
  double scale = std::bit_cast<double>(a.scale);
  for (int64_t b = 0; b < a.batch; ++b)
    for (int64_t h = 0; h < a.heads; ++h)
      for (int64_t i = 0; i < a.queries; ++i) {
        size_t row = rowOf(a, a.queries, b, h, i);
        int64_t last = a.causal ? std::min(i + 1, a.keys) : a.keys;
        Numbers p;
        double sum = 0;
        for (int64_t j = 0; j < last; ++j) {
          double score = scale * dot(s.q, row, s.k, rowOf(a, a.keys, b, h, j));
          if (a.has_bias) {
            int64_t at = a.bias_batch > 1 ? b : 0;
            at = at * a.bias_heads + (a.bias_heads > 1 ? h : 0);
            at = at * a.bias_queries + (a.bias_queries > 1 ? i : 0);
            score += s.bias[static_cast<size_t>(at * a.keys + j)];
          }
          p.push_back(std::exp(score));
          sum += p.back();
        }
        s.stats[static_cast<size_t>((b * a.heads + h) * a.queries + i)] = std::log(sum);
        for (int64_t j = 0; j < last; ++j)
          add(s.o, row, p[static_cast<size_t>(j)] /= sum, s.v, rowOf(a, a.keys, b, h, j));
        double inner = dot(s.dO, row, s.o, row);
        for (int64_t j = 0; j < last; ++j) {
          size_t column = rowOf(a, a.keys, b, h, j);
          double weight = p[static_cast<size_t>(j)];
          add(s.dV, column, weight, s.dO, row);
          double dS = weight * (dot(s.dO, row, s.v, column) - inner) * scale;
          add(s.dQ, row, dS, s.k, column);
          add(s.dK, column, dS, s.q, row);
        }
      }
}

Sample sampleOf(const DivisiAttention &a) {
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  auto draw = [&](int64_t count, int64_t type) {
    Numbers x(static_cast<size_t>(count));
    for (double &value : x)
      value = roundedTo(type, normal(random));
    return x;
  };
  int64_t row = a.batch * a.heads * a.queries, column = a.batch * a.heads * a.keys;
  Sample s{a, draw(row * a.depth, a.type), draw(column * a.depth, a.type), draw(column * a.depth, a.type)};
  s.bias = draw(a.bias_batch * a.bias_heads * a.bias_queries * a.keys, DIVISI_F32);
  if (a.has_bias) // a key that nobody looks at
    for (size_t i = static_cast<size_t>(a.keys) - 1; a.keys > 2 && i < s.bias.size(); i += static_cast<size_t>(a.keys))
      s.bias[i] = -std::numeric_limits<double>::infinity();
  s.dO = draw(row * a.depth, a.type);
  s.o.resize(s.q.size()), s.dQ.resize(s.q.size()), s.dK.resize(s.k.size()), s.dV.resize(s.k.size());
  s.stats.resize(static_cast<size_t>(row));
  define(s);
  return s;
}

/// Tensors in a GPU's memory, one behind the other as in an arena.
class Arena {
public:
  explicit Arena(const Driver &driver) : memory(driver, bytes, "allocate") {}
  char *place(size_t size) {
    used = (used + DIVISI_ALIGNMENT - 1) / DIVISI_ALIGNMENT * DIVISI_ALIGNMENT;
    used += size;
    EXPECT_LE(used, bytes);
    return memory.data() + used - size;
  }
  void *put(const Numbers &values, int64_t type) {
    char *at = place(values.size() * (type == DIVISI_F32 ? 4 : 2));
    for (size_t i = 0; i < values.size(); ++i) {
      auto single = static_cast<float>(values[i]);
      auto half = static_cast<_Float16>(values[i]);
      auto brain = static_cast<uint16_t>(std::bit_cast<uint32_t>(single) >> 16);
      if (type == DIVISI_F32)
        std::memcpy(at + 4 * i, &single, 4);
      else
        std::memcpy(at + 2 * i, type == DIVISI_F16 ? static_cast<void *>(&half) : &brain, 2);
    }
    return at;
  }
  static Numbers get(const void *at, size_t count, int64_t type) {
    Numbers values;
    for (size_t i = 0; i < count; ++i)
      values.push_back(type == DIVISI_F32 ? static_cast<const float *>(at)[i]
                       : type == DIVISI_F16
                           ? static_cast<double>(static_cast<const _Float16 *>(at)[i])
                           : std::bit_cast<float>(uint32_t(static_cast<const uint16_t *>(at)[i]) << 16));
    return values;
  }

private:
  static constexpr size_t bytes = size_t(64) << 20;
  Memory memory;
  size_t used = 0;
};

void expectNear(const char *what, const Numbers &expected, const void *at, int64_t type, double tolerance) {
  Numbers found = Arena::get(at, expected.size(), type);
  double worst = 0, scale = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    worst = std::fmax(worst, std::isnan(found[i]) ? 1e9 : std::fabs(found[i] - expected[i]));
    scale = std::fmax(scale, std::fabs(expected[i]));
  }
  EXPECT_LE(worst, tolerance * std::fmax(scale, 1)) << what;
}

class AttentionTest : public testing::Test {
protected:
  void SetUp() override {
    driver.check(driver.init(0), "start");
    driver.check(driver.createStream(&stream, nonBlocking), "create a stream");
  }

  void TearDown() override { driver.destroyStream(stream); }

  /// `workspace`: bytes that the caller has for the gradient's, 64 bytes behind a multiple of 256. Whether it was used.
  bool check(DivisiAttention a, int64_t workspace) {
    Sample s = sampleOf(a);
    Attention attention(driver, stream);
    Arena arena(driver);
    std::vector<void *> inputs = {arena.put(s.q, a.type), arena.put(s.k, a.type), arena.put(s.v, a.type)};
    if (a.has_bias)
      inputs.push_back(arena.put(s.bias, DIVISI_F32));
    void *o = arena.place(2 * s.o.size()), *stats = arena.place(4 * s.stats.size()), *dO = arena.put(s.dO, a.type);
    void *dQ = arena.place(2 * s.q.size()), *dK = arena.place(2 * s.k.size()), *dV = arena.place(2 * s.v.size());
    DivisiAttention forward = a, gradient = a;
    gradient.workspace = workspace;
    std::vector<void *> buffers = inputs;
    buffers.insert(buffers.end(), {o, stats, dO, dQ, dK, dV});
    while (addressOf(arena.place(0)) % 256 != 64)
      arena.place(1);
    auto bytes = static_cast<size_t>(workspace);
    Numbers mark = {1234};
    char *space = arena.place(bytes), *end = space + bytes;
    arena.put(mark, DIVISI_F32);
    std::memset(space, 0x77, bytes);
    if (workspace > 0)
      buffers.push_back(space);
    auto compute = [&] { // forward takes the first ones of the gradient's buffers
      attention.compute(AttentionKind::Forward, forward, buffers.data());
      attention.compute(AttentionKind::Gradient, gradient, buffers.data());
    };
    compute(); // makes the plans
    replay(compute, [&] {
      for (auto [at, like] : {std::pair{o, &s.o}, {dQ, &s.q}, {dK, &s.k}, {dV, &s.v}})
        std::memset(at, 0xFF, 2 * like->size());
    });
    double rounding = a.type == DIVISI_F16 ? 0x1p-9 : 0x1p-6;
    expectNear("o", s.o, o, a.type, rounding);
    expectNear("stats", s.stats, stats, DIVISI_F32, 1e-5);
    expectNear("dq", s.dQ, dQ, a.type, rounding);
    expectNear("dk", s.dK, dK, a.type, rounding);
    expectNear("dv", s.dV, dV, a.type, rounding);
    EXPECT_EQ(Arena::get(end, 1, DIVISI_F32), mark) << "what lies behind the workspace";
    return std::any_of(space, end, [](char byte) { return byte != 0x77; });
  }

  /// Records what `work` does, and does it after `clear`.
  template <typename Work, typename Clear> void replay(const Work &work, const Clear &clear) {
    Graph graph = nullptr;
    GraphExec made = nullptr;
    driver.check(driver.beginCapture(stream, 1), "record");
    work();
    clear();
    driver.check(driver.endCapture(stream, &graph), "record");
    driver.check(driver.instantiate(&made, graph, 0), "record");
    driver.check(driver.launchGraph(made, stream), "replay");
    driver.destroyGraph(graph);
    driver.destroyGraphExec(made);
  }

  Driver driver;
  Stream stream = nullptr;
};

DivisiAttention of(int64_t batch, int64_t heads, int64_t queries, int64_t keys, int64_t depth, int64_t type) {
  double scale = 1 / std::sqrt(static_cast<double>(depth));
  return {batch, heads, queries, keys, depth, 0, 0, 1, 1, 1, std::bit_cast<int64_t>(scale), type, 0};
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
