// Each instruction that occurs, compared with C++: on numbers of all magnitudes, and on those at which rules change.
#include "test/gpu/ptx/KernelText.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>

using namespace divisi::test::ptx;

namespace {
template <typename T> std::string registerOf(int number) {
  return (sizeof(T) == 2 ? "%rs" : sizeof(T) == 4 ? "%r" : "%rd") + std::to_string(number);
}

template <typename T> std::vector<T> numbers(unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<T> all(96);
  const auto least = std::numeric_limits<T>::lowest(), most = std::numeric_limits<T>::max();
  std::vector<T> edges = {0, 1, least, most, T(most - 1), T(least + 1), 2, 3, T(-1)};
  if constexpr (std::is_floating_point_v<T>) {
    const T inf = std::numeric_limits<T>::infinity(), tiny = std::numeric_limits<T>::denorm_min();
    edges.insert(edges.end(), {inf, -inf, std::numeric_limits<T>::quiet_NaN(), T(-0.0), tiny, -tiny, T(0.5), T(-2.5),
                               T(1e9), T(-1e9), T(1e19)});
  }
  for (T &x : all) {
    uint64_t bits = random();
    if (std::is_floating_point_v<T> && random() % 2)
      x = (T)((double)(int64_t)bits * 0x1p-60);
    else
      std::memcpy(&x, &bits, sizeof x);
    if (random() % 3 == 0)
      x = edges[random() % edges.size()];
  }
  return all;
}
template <typename T> bool isSame(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    return (a != a && b != b) || std::memcmp(&a, &b, sizeof a) == 0;
  else
    return a == b;
}

/// `opcode`, from up to three numbers, on three blocks' worth of lanes with one of them inactive here and there.
template <typename D, typename A, typename B = A, typename C = A, typename F, typename G = bool (*)(D, D)>
void check(const std::string &opcode, unsigned sources, F expected, G agree = isSame<D>) {
  SCOPED_TRACE(opcode);
  auto a = numbers<A>(1);
  auto b = numbers<B>(2);
  auto c = numbers<C>(3);
  std::vector<D> d(96);
  std::string operands = registerOf<D>(1) + ", " + registerOf<A>(2);
  operands += sources > 1 ? ", " + registerOf<B>(3) : "";
  operands += sources > 2 ? ", " + registerOf<C>(4) : "";
  std::string text = "mov.u32 %r0, %tid.x;\n" + loadText(0, registerOf<A>(2), sizeof(A)) +
                     loadText(1, registerOf<B>(3), sizeof(B)) + loadText(2, registerOf<C>(4), sizeof(C)) +
                     "rem.u32 %r8, %r0, 7; setp.eq.b32 %p1, %r8, 3; @%p1 bra $end;\n" + opcode + " " + operands +
                     ";\n" + storeText(3, registerOf<D>(1), sizeof(D)) + "$end:";
  ASSERT_EQ(launch(kernelText(4, text), 1, 96, a, b, c, d), "");
  for (size_t i = 0; i < d.size(); ++i) {
    D wanted = i % 7 == 3 ? D(0) : (D)expected(a[i], b[i], c[i]);
    EXPECT_TRUE(agree(d[i], wanted)) << +a[i] << ", " << +b[i] << ", " << +c[i] << ": " << +d[i] << " and not "
                                     << +wanted;
  }
}

template <typename T> void checkFloats(const std::string &type) {
  check<T, T>("add" + type, 2, [](T a, T b, T) { return a + b; });
  check<T, T>("sub.rn" + type, 2, [](T a, T b, T) { return a - b; });
  check<T, T>("mul.rn" + type, 2, [](T a, T b, T) { return a * b; });
  check<T, T>("fma.rn" + type, 3, [](T a, T b, T c) { return std::fma(a, b, c); });
  check<T, T>("div.rn" + type, 2, [](T a, T b, T) { return a / b; });
  check<T, T>("rcp.rn" + type, 1, [](T a, T, T) { return 1 / a; });
  check<T, T>("sqrt.rn" + type, 1, [](T a, T, T) { return std::sqrt(a); });
  check<T, T>("abs" + type, 1, [](T a, T, T) { return std::fabs(a); });
  check<T, T>("neg" + type, 1, [](T a, T, T) { return -a; });
  check<T, T>("copysign" + type, 2, [](T a, T b, T) { return std::copysign(b, a); });
  auto equal = [](T a, T b) { return isSame(a, b) || a == b; }; // (of zeros C++ returns any)
  check<T, T>(
      "max" + type, 2, [](T a, T b, T) { return std::fmax(a, b); }, equal);
  check<T, T>(
      "min" + type, 2, [](T a, T b, T) { return std::fmin(a, b); }, equal);
}

template <typename T> void checkIntegers(const std::string &type) {
  using U = std::make_unsigned_t<T>;
  using Wide = __int128;
  check<T, T>("add" + type, 2, [](T a, T b, T) { return (T)((Wide)a + b); });
  check<T, T>("sub" + type, 2, [](T a, T b, T) { return (T)((Wide)a - b); });
  check<T, T>("mul.lo" + type, 2,
              [](T a, T b, T) { return (T)((unsigned __int128)(Wide)a * (unsigned __int128)(Wide)b); });
  check<T, T>("mad.lo" + type, 3, [](T a, T b, T c) {
    return (T)((unsigned __int128)(Wide)a * (unsigned __int128)(Wide)b + (unsigned __int128)(Wide)c);
  });
  if constexpr (sizeof(T) < 8)
    check<T, T>("mul.hi" + type, 2, [](T a, T b, T) { return (T)(((Wide)a * b) >> (8 * sizeof(T))); });
  check<T, T>("min" + type, 2, [](T a, T b, T) { return std::min(a, b); });
  check<T, T>("max" + type, 2, [](T a, T b, T) { return std::max(a, b); });
  check<T, T, uint32_t>("shr" + type, 2,
                        [](T a, uint32_t b, T) { return b >= 8 * sizeof(T) ? T(a < 0 ? -1 : 0) : T(a >> b); });
  check<U, U>("xor.b" + std::to_string(8 * sizeof(T)), 2, [](U a, U b, U) { return U(a ^ b); });
  check<U, U, uint32_t>("shl.b" + std::to_string(8 * sizeof(T)), 2,
                        [](U a, uint32_t b, U) { return b >= 8 * sizeof(T) ? U(0) : U(a << b); });
}

TEST(PtxInstructions, Floats) {
  checkFloats<float>(".f32");
  checkFloats<double>(".f64");
  check<float, float>(
      "max.NaN.f32", 2, [](float a, float b, float) { return a != a || b != b ? NAN : std::fmax(a, b); },
      [](float a, float b) { return isSame(a, b) || a == b; });
  check<float, float>(
      "min.NaN.f32", 2, [](float a, float b, float) { return a != a || b != b ? NAN : std::fmin(a, b); },
      [](float a, float b) { return isSame(a, b) || a == b; });
  check<float, float>(
      "add.rz.f32", 2,
      [](float a, float b, float) {
        std::fesetround(FE_TOWARDZERO);
        volatile float x = a, y = b, sum = x + y;
        std::fesetround(FE_TONEAREST);
        return (float)sum;
      },
      [](float a, float b) { return isSame(a, b) || a == b; });
}

/// Of .approx, documented: relative errors of 2^-22 (2^-11 of tanh), zero instead of subnormal numbers with .ftz.
TEST(PtxInstructions, Approximations) {
  auto within = [](double error) {
    return [error](float a, float b) { return isSame(a, b) || a == b || std::fabs(a - b) <= error * std::fabs(b); };
  };
  auto flush = [](float a) { return std::fabs(a) < std::numeric_limits<float>::min() ? std::copysign(0.0f, a) : a; };
  using F = float;
  check<F, F>(
      "ex2.approx.ftz.f32", 1, [&](F a, F, F) { return flush((F)std::exp2((double)flush(a))); }, within(0x1p-22));
  check<F, F>(
      "lg2.approx.f32", 1, [](F a, F, F) { return std::log2(a); }, within(0x1p-22));
  check<F, F>(
      "rcp.approx.ftz.f32", 1, [&](F a, F, F) { return flush(1 / flush(a)); }, within(0x1p-23));
  check<F, F>(
      "rsqrt.approx.ftz.f32", 1, [&](F a, F, F) { return flush(1 / std::sqrt(flush(a))); }, within(0x1p-22));
  check<F, F>(
      "div.approx.ftz.f32", 2, [&](F a, F b, F) { return flush(flush(a) / flush(b)); }, within(0x1p-22));
  check<F, F>(
      "tanh.approx.f32", 1, [](F a, F, F) { return std::tanh(a); }, within(0x1p-11));
  check<double, double>(
      "rcp.approx.ftz.f64", 1,
      [](double a, double, double) { return std::fabs(a) < 0x1p-1022 ? std::copysign(INFINITY, a) : 1 / a; },
      [](double a, double b) {
        return isSame(a, b) || std::fabs(b) < 0x1p-1022 || std::fabs(a - b) <= 0x1p-20 * std::fabs(b);
      });
}

TEST(PtxInstructions, Integers) {
  checkIntegers<int16_t>(".s16");
  checkIntegers<uint16_t>(".u16");
  checkIntegers<int32_t>(".s32");
  checkIntegers<uint32_t>(".u32");
  checkIntegers<int64_t>(".s64");
  checkIntegers<uint64_t>(".u64");
  using U = uint32_t;
  using L = uint64_t;
  check<L, L>("mul.hi.u64", 2, [](L a, L b, L) { return (L)(((unsigned __int128)a * b) >> 64); });
  check<L, U>("mul.wide.u32", 2, [](U a, U b, U) { return (L)a * b; });
  check<int64_t, int32_t>("mul.wide.s32", 2, [](int32_t a, int32_t b, int32_t) { return (int64_t)a * b; });
  check<U, U>("shf.l.wrap.b32", 3, [](U a, U b, U c) { return c % 32 ? b << c % 32 | a >> (32 - c % 32) : b; });
  check<U, U>("bfe.u32", 3, [](U a, U b, U c) {
    return (b & 255) > 31 ? 0 : (U)((L)(a >> (b & 255)) & ((c & 255) > 31 ? ~U(0) : (U(1) << (c & 255)) - 1));
  });
  check<U, U>("popc.b32", 1, [](U a, U, U) {
    U n = 0;
    for (; a; a &= a - 1)
      ++n;
    return n;
  });
  check<U, U>("not.b32", 1, [](U a, U, U) { return ~a; });
  check<int64_t, int64_t>("neg.s64", 1, [](int64_t a, int64_t, int64_t) { return (int64_t)(0 - (L)a); });
}

/// In a pair: the lower half of a product and a sum, and the upper half with its carry.
TEST(PtxInstructions, Carry) {
  check<uint32_t, uint32_t>("mad.lo.cc.u32 %r5, %r2, %r3, %r4; madc.hi.u32", 3, [](uint32_t a, uint32_t b, uint32_t c) {
    uint64_t low = (uint64_t)(a * b) + c;
    return (uint32_t)(((uint64_t)a * b) >> 32) + c + (uint32_t)(low >> 32);
  });
}

template <typename T> void checkComparison(const std::string &opcode, const std::function<bool(T, T)> &expected) {
  SCOPED_TRACE(opcode);
  auto a = numbers<T>(1), b = numbers<T>(2);
  for (size_t i = 0; i < 20; ++i)
    b[i] = a[i];
  std::vector<uint32_t> d(96);
  std::string text = "mov.u32 %r0, %tid.x;\n" + loadText(0, registerOf<T>(2), sizeof(T)) +
                     loadText(1, registerOf<T>(3), sizeof(T)) + opcode + " %p2, " + registerOf<T>(2) + ", " +
                     registerOf<T>(3) + "; selp.b32 %r1, 5, 7, %p2;\n" + storeText(2, "%r1", 4);
  ASSERT_EQ(launch(kernelText(3, text), 1, 96, a, b, d), "");
  for (size_t i = 0; i < d.size(); ++i)
    EXPECT_EQ(d[i], expected(a[i], b[i]) ? 5u : 7u) << a[i] << ", " << b[i];
}

TEST(PtxInstructions, Comparisons) {
  checkComparison<float>("setp.lt.f32", std::less<float>());
  checkComparison<float>("setp.ge.f32", std::greater_equal<float>());
  checkComparison<float>("setp.eq.f32", std::equal_to<float>());
  checkComparison<float>("setp.ne.f32", [](float a, float b) { return a < b || a > b; });
  checkComparison<float>("setp.neu.f32", std::not_equal_to<float>());
  checkComparison<float>("setp.gtu.f32", [](float a, float b) { return !(a <= b); });
  checkComparison<float>("setp.ltu.f32", [](float a, float b) { return !(a >= b); });
  auto bfloat = [](uint16_t a) { return std::bit_cast<float>((uint32_t)a << 16); };
  checkComparison<uint16_t>("setp.gt.bf16", [=](uint16_t a, uint16_t b) { return bfloat(a) > bfloat(b); });
  checkComparison<uint16_t>("setp.num.bf16", [=](uint16_t a, uint16_t b) { return !std::isunordered(bfloat(a), bfloat(b)); });
  checkComparison<double>("setp.nan.f64", [](double a, double b) { return std::isunordered(a, b); });
  checkComparison<double>("setp.num.f64", [](double a, double b) { return !std::isunordered(a, b); });
  checkComparison<int64_t>("setp.gt.s64", std::greater<int64_t>());
  checkComparison<uint32_t>("setp.lt.u32", std::less<uint32_t>());
  checkComparison<int16_t>("setp.le.s16", std::less_equal<int16_t>());
  checkComparison<uint16_t>("setp.ne.b16", std::not_equal_to<uint16_t>());
}

TEST(PtxInstructions, Conversions) {
  using F = float;
  check<uint64_t, uint32_t>("cvt.u64.u32", 1, [](uint32_t a, uint32_t, uint32_t) { return (uint64_t)a; });
  check<uint16_t, uint64_t>("cvt.u16.u64", 1, [](uint64_t a, uint64_t, uint64_t) { return (uint16_t)a; });
  check<int64_t, uint16_t>("cvt.s64.s16", 1, [](uint16_t a, uint16_t, uint16_t) { return (int64_t)(int16_t)a; });
  check<uint16_t, int64_t>("cvt.s8.s64", 1, [](int64_t a, int64_t, int64_t) { return (uint16_t)(int16_t)(int8_t)a; });
  check<F, int64_t>("cvt.rn.f32.s64", 1, [](int64_t a, int64_t, int64_t) { return (F)a; });
  check<F, uint64_t>("cvt.rn.f32.u64", 1, [](uint64_t a, uint64_t, uint64_t) { return (F)a; });
  check<double, int64_t>("cvt.rn.f64.s64", 1, [](int64_t a, int64_t, int64_t) { return (double)a; });
  check<F, double>("cvt.rn.f32.f64", 1, [](double a, double, double) { return (F)a; });
  check<F, F>("cvt.rmi.f32.f32", 1, [](F a, F, F) { return std::floor(a); });
  check<F, F>("cvt.rni.f32.f32", 1, [](F a, F, F) { return std::nearbyint(a); });
  check<int32_t, F>("cvt.rzi.s32.f32", 1, [](F a, F, F) -> int32_t {
    return a != a ? 0 : a >= 0x1p31f ? 0x7fffffff : a <= -0x1p31f ? INT32_MIN : (int32_t)a;
  });
  check<int64_t, F>("cvt.rni.s64.f32", 1, [](F a, F, F) -> int64_t {
    return a != a ? INT64_MIN : a >= 0x1p63f ? INT64_MAX : a <= -0x1p63f ? INT64_MIN : (int64_t)std::nearbyint(a);
  });
  auto half = [](F a) { return std::bit_cast<uint16_t>((_Float16)a); };
  check<uint16_t, F>("cvt.rn.f16.f32", 1, [&](F a, F, F) { return a != a ? 0x7fff : half(a); });
  check<uint32_t, F, F>("cvt.rn.f16x2.f32", 2, [&](F a, F b, F) {
    auto one = [&](F x) -> uint32_t { return x != x ? 0x7fff : half(x); };
    return one(a) << 16 | one(b);
  });
  // To the nearest number of the upper 16 bits, to an even one of two.
  check<uint32_t, F, F>("cvt.rn.bf16x2.f32", 2, [](F a, F b, F) {
    auto one = [](F x) -> uint32_t {
      auto bits = std::bit_cast<uint32_t>(x);
      return x != x ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    };
    return one(a) << 16 | one(b);
  });
  check<F, uint16_t>("cvt.f32.f16", 1, [](uint16_t a, uint16_t, uint16_t) { return (F)std::bit_cast<_Float16>(a); });
}

/// Extrema of 16 bits are one of the two numbers, compared as floats.
TEST(PtxInstructions, HalfExtrema) {
  auto bfloat = [](uint16_t a) { return std::bit_cast<float>((uint32_t)a << 16); };
  auto half = [](uint16_t a) { return (float)std::bit_cast<_Float16>(a); };
  auto both = [](const std::string &type, auto wide) {
    auto same = [=](uint16_t a, uint16_t b) { return a == b || wide(a) == wide(b); };
    for (const std::string keeps : {"", ".NaN"}) {
      auto wanted = [=](uint16_t a, uint16_t b, bool least) -> uint16_t {
        bool isNan = std::isnan(wide(a)), isOtherNan = std::isnan(wide(b));
        if ((isNan && isOtherNan) || ((isNan || isOtherNan) && !keeps.empty()))
          return 0x7fff;
        float result = least ? std::fmin(wide(a), wide(b)) : std::fmax(wide(a), wide(b));
        return result == wide(a) ? a : b;
      };
      check<uint16_t, uint16_t>(
          "min" + keeps + type, 2, [=](uint16_t a, uint16_t b, uint16_t) { return wanted(a, b, true); }, same);
      check<uint16_t, uint16_t>(
          "max" + keeps + type, 2, [=](uint16_t a, uint16_t b, uint16_t) { return wanted(a, b, false); }, same);
    }
  };
  both(".bf16", bfloat);
  both(".f16", half);
}

/// Registers that are parts of others, and vectors in memory.
TEST(PtxInstructions, Parts) {
  std::vector<uint64_t> from(66), to(66);
  for (size_t i = 0; i < from.size(); ++i)
    from[i] = 0x0123456789abcdefull * (i + 1);
  std::string text =
      "mov.u32 %r0, %tid.x;\n" + addressText(0, 16) + "ld.global.nc.v4.b32 {%r1, %r2, %r3, %r4}, [%rd8+16];\n" +
      "mov.b32 {%rs1, %rs2}, %r1; mov.b32 %r1, {%rs2, %rs1}; mov.b64 %rd1, {%r2, %r1}; mov.b64 {_, %r5}, %rd1;\n"
      "{ .reg .b16 tmp; mov.b32 {tmp, %rs3}, %r4; }\ncvt.u32.u16 %r6, %rs3;\n" +
      addressText(1, 16) + "st.global.v4.b32 [%rd8+16], {%r5, 0f3F800000, %r3, %r6};";
  ASSERT_EQ(launch(kernelText(2, text), 1, 32, from, to), "");
  for (size_t i = 0; i < 32; ++i) {
    auto low = (uint32_t)from[2 * i + 2];
    EXPECT_EQ(to[2 * i + 2], 0x3f80000000000000ull | (low << 16 | low >> 16));
    EXPECT_EQ(to[2 * i + 3], (from[2 * i + 3] >> 48) << 32 | (uint32_t)from[2 * i + 3]);
  }
}

/// Shuffles as warp functions of CUDA define them.
TEST(PtxInstructions, Shuffles) {
  auto shuffled = [](const std::string &rest) {
    std::vector<uint32_t> to(32);
    std::string text = "mov.u32 %r0, %tid.x;\nadd.s32 %r1, %r0, 100; shfl.sync." + rest + "\n" + storeText(0, "%r2", 4);
    EXPECT_EQ(launch(kernelText(1, text), 1, 32, to), "");
    return to;
  };
  auto butterfly = shuffled("bfly.b32 %r2, %r1, 5, 31, -1;"), down = shuffled("down.b32 %r2, %r1, 3, 31, -1;");
  auto up = shuffled("up.b32 %r2, %r1, 2, 0, -1;"),
       index = shuffled("idx.b32 %r2, %r1, 1, 6175, -1;"); // in segments of 8
  for (uint32_t i = 0; i < 32; ++i) {
    EXPECT_EQ(butterfly[i], 100 + (i ^ 5));
    EXPECT_EQ(down[i], 100 + (i + 3 < 32 ? i + 3 : i));
    EXPECT_EQ(up[i], 100 + (i >= 2 ? i - 2 : i));
    EXPECT_EQ(index[i], 100 + (i / 8 * 8 + 1));
  }
}
} // namespace
