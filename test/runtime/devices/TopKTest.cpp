#include "runtime/core/Context.h"
#include "runtime/core/Half.h"
#include "test/runtime/Util.h"

using namespace divisi::runtime;
using namespace divisi::test;

namespace {
template <typename T> void check(std::vector<T> x, DivisiTopK p) {
  auto count = static_cast<size_t>(p.outer * p.k * p.inner);
  std::vector<T> values(count), wantValues(count);
  std::vector<int64_t> indices(count, -1), wantIndices(count);
  for (int64_t o = 0; o < p.outer; ++o)
    for (int64_t i = 0; i < p.inner; ++i) {
      std::vector<int64_t> order(p.extent);
      for (int64_t e = 0; e < p.extent; ++e)
        order[e] = e;
      auto at = [&](int64_t e) { return x[(o * p.extent + e) * p.inner + i]; };
      std::stable_sort(order.begin(), order.end(),
                       [&](int64_t a, int64_t b) { return p.largest ? at(a) > at(b) : at(a) < at(b); });
      for (int64_t k = 0; k < p.k; ++k) {
        wantValues[(o * p.k + k) * p.inner + i] = at(order[k]);
        wantIndices[(o * p.k + k) * p.inner + i] = order[k];
      }
    }
  DivisiContext context(2);
  void *buffers[] = {x.data(), values.data(), indices.data()};
  divisi_top_k(&context, &p, buffers);
  ASSERT_TRUE(succeeded(context.error));
  EXPECT_EQ(values, wantValues);
  EXPECT_EQ(indices, wantIndices);
}

template <typename T> class TopK : public testing::Test {};
using Types = testing::Types<float, double, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>;
TYPED_TEST_SUITE(TopK, Types);

TYPED_TEST(TopK, IsAStableSort) {
  using T = TypeParam;
  int64_t kind = std::is_floating_point_v<T> ? 0 : std::is_signed_v<T> ? 1 : 2;
  for (int64_t largest : {0, 1})
    for (auto [outer, extent, inner, k] : {std::array<int64_t, 4>{1, 7, 1, 7},
                                           {5, 30, 1, 4},
                                           {3, 12, 5, 3},
                                           {4, 1, 2, 1},
                                           {2, 9, 3, 0},
                                           {40, 300, 2, 17}}) {
      // Few different values: ties are common. The extremes of the type are among them.
      std::vector<T> x;
      for (float v : randomNumbers(static_cast<size_t>(outer * extent * inner), 5))
        x.push_back(static_cast<T>(static_cast<int>(v * 10)));
      x[0] = std::numeric_limits<T>::max();
      x.back() = std::numeric_limits<T>::lowest();
      check<T>(x, {outer, extent, inner, k, largest, kind, sizeof(T)});
    }
}

TEST(TopKFloat, NegativeZeroEqualsZeroAndNanIsLargest) {
  check<float>({0.0f, -0.0f, 1.0f, -0.0f, 0.0f}, {1, 5, 1, 5, 1, 0, 4});
  std::vector<float> x = {1, NAN, INFINITY, -NAN}, values(4);
  std::vector<int64_t> indices(4);
  DivisiContext context(1);
  DivisiTopK p = {1, 4, 1, 4, 1, 0, 4};
  void *buffers[] = {x.data(), values.data(), indices.data()};
  divisi_top_k(&context, &p, buffers);
  EXPECT_EQ(indices, (std::vector<int64_t>{1, 3, 2, 0}));
}

TEST(TopKFloat, HalvesOrderAsTheirNumbers) {
  for (bool brain : {false, true}) {
    std::vector<float> numbers = randomNumbers(200, 3);
    std::vector<uint16_t> x, values(20);
    for (float &v : numbers) {
      x.push_back(brain ? floatToBfloat(v) : floatToHalf(v));
      v = brain ? bfloatToFloat(x.back()) : halfToFloat(x.back());
    }
    std::vector<int64_t> indices(20), order(200);
    for (int64_t i = 0; i < 200; ++i)
      order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return numbers[a] > numbers[b]; });
    order.resize(20);
    DivisiContext context(1);
    DivisiTopK p = {1, 200, 1, 20, 1, 0, 2};
    void *buffers[] = {x.data(), values.data(), indices.data()};
    divisi_top_k(&context, &p, buffers);
    EXPECT_EQ(indices, order);
  }
}

TEST(TopKErrors, CannotTakeMoreThanThereAre) {
  DivisiContext context(1);
  DivisiTopK p = {1, 3, 1, 4, 1, 0, 4};
  void *buffers[] = {nullptr, nullptr, nullptr};
  divisi_top_k(&context, &p, buffers);
  EXPECT_TRUE(failsWith(context.error, "cannot take 4 of 3"));
}
} // namespace
