// Arithmetic of floats. It is IEEE's, with subnormal numbers unless an opcode has .ftz, and NaN has one pattern of
// bits. The .approx instructions are exact to the last bit or two; tanh.approx has the error that PTX states.
#include "runtime/core/Half.h"
#include "test/gpu/ptx/Lanes.h"

#include <bit>
#include <cmath>
#include <limits>

using namespace divisi::test::ptx;

namespace {
float canonical(float x) { return x != x ? std::bit_cast<float>(0x7fffffffu) : x; }
double canonical(double x) { return x != x ? std::bit_cast<double>(0x7fffffffffffffffull) : x; }
float flushed(float x) { return std::fabs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0f, x) : x; }

template <typename T> T smaller(T a, T b) { return a < b || (a == b && std::signbit(a)) ? a : b; }
template <typename T> T larger(T a, T b) { return a > b || (a == b && std::signbit(b)) ? a : b; }

/// The sum rounded toward zero.
float sumTowardZero(float a, float b) {
  float sum = a + b;
  if (std::isinf(sum) && std::isfinite(a) && std::isfinite(b))
    return std::copysign(std::numeric_limits<float>::max(), sum);
  if (!std::isfinite(sum))
    return canonical(sum);
  float part = sum - a, error = (a - (sum - part)) + (b - part); // exact
  bool isTooLarge = sum > 0 ? error < 0 : error > 0;
  return isTooLarge ? std::nextafter(sum, 0.0f) : sum;
}

/// Within the 2^-11 of the result that PTX allows.
constexpr auto coarseTanh = [](float x) {
  float y = std::tanh(x);
  return y != y ? canonical(y) : std::bit_cast<float>((std::bit_cast<uint32_t>(y) + 0x1000u) & ~0x1fffu);
};

template <typename T> void addType(Table &table, const std::string &type) {
  auto both = [&](const std::string &op, auto f) { add<T, T, T>(table, {op + type, op + ".rn" + type}, f); };
  both("add", [](T a, T b) { return canonical(a + b); });
  both("sub", [](T a, T b) { return canonical(a - b); });
  both("mul", [](T a, T b) { return canonical(a * b); });
  add<T, T, T, T>(table, {"fma.rn" + type}, [](T a, T b, T c) { return canonical(std::fma(a, b, c)); });
  add<T, T, T>(table, {"div.rn" + type}, [](T a, T b) { return canonical(a / b); });
  add<T, T>(table, {"rcp.rn" + type}, [](T a) { return canonical(1 / a); });
  add<T, T>(table, {"sqrt.rn" + type}, [](T a) { return canonical(std::sqrt(a)); });
  add<T, T>(table, {"abs" + type}, [](T a) { return std::fabs(a); });
  add<T, T>(table, {"neg" + type}, [](T a) { return -a; });
  add<T, T, T>(table, {"copysign" + type}, [](T a, T b) { return std::copysign(b, a); });
  add<T, T, T>(table, {"min" + type}, [](T a, T b) { return a != a ? canonical(b) : b != b ? a : smaller(a, b); });
  add<T, T, T>(table, {"max" + type}, [](T a, T b) { return a != a ? canonical(b) : b != b ? a : larger(a, b); });
}

/// One of two numbers of 16 bits, which F makes floats: of NaN and a number NaN, or the number.
template <typename F, bool least, bool keepsNan> uint16_t chosen(uint16_t a, uint16_t b) {
  const float x = F()(a), y = F()(b);
  if (x != x || y != y)
    return keepsNan || (x != x && y != y) ? 0x7fff : x != x ? b : a;
  const float from = least ? x : y, to = least ? y : x;
  return from < to || (x == y && std::signbit(from)) ? a : b;
}
template <typename F> void addHalf(Table &table, const std::string &type, F) {
  using Bits = uint16_t;
  add<Bits, Bits, Bits>(table, {"min" + type}, [](Bits a, Bits b) { return chosen<F, true, false>(a, b); });
  add<Bits, Bits, Bits>(table, {"max" + type}, [](Bits a, Bits b) { return chosen<F, false, false>(a, b); });
  add<Bits, Bits, Bits>(table, {"min.NaN" + type}, [](Bits a, Bits b) { return chosen<F, true, true>(a, b); });
  add<Bits, Bits, Bits>(table, {"max.NaN" + type}, [](Bits a, Bits b) { return chosen<F, false, true>(a, b); });
}
} // namespace

void divisi::test::ptx::addFloats(Table &table) {
  addType<float>(table, ".f32");
  addType<double>(table, ".f64");
  addHalf(table, ".f16", [](uint16_t a) { return divisi::runtime::halfToFloat(a); });
  addHalf(table, ".bf16", [](uint16_t a) { return divisi::runtime::bfloatToFloat(a); });
  add<float, float, float>(table, {"min.NaN.f32"},
                           [](float a, float b) { return a != a || b != b ? canonical(NAN) : smaller(a, b); });
  add<float, float, float>(table, {"max.NaN.f32"},
                           [](float a, float b) { return a != a || b != b ? canonical(NAN) : larger(a, b); });
  add<float, float, float>(table, {"add.rz.f32"}, [](float a, float b) { return sumTowardZero(a, b); });

  auto approximate = [&](const std::string &op, auto f) {
    add<float, float>(table, {op + ".approx.f32"}, f);
    add<float, float>(table, {op + ".approx.ftz.f32"}, [](float a) { return flushed(decltype(f)()(flushed(a))); });
  };
  approximate("rcp", [](float a) { return canonical(1 / a); });
  approximate("sqrt", [](float a) { return canonical(std::sqrt(a)); });
  approximate("rsqrt", [](float a) { return canonical((float)(1 / std::sqrt((double)a))); });
  approximate("ex2", [](float a) { return canonical((float)std::exp2((double)a)); });
  approximate("lg2", [](float a) { return canonical((float)std::log2((double)a)); });
  approximate("sin", [](float a) { return canonical((float)std::sin((double)a)); });
  approximate("cos", [](float a) { return canonical((float)std::cos((double)a)); });
  add<float, float>(table, {"tanh.approx.f32"}, coarseTanh);
  add<float, float, float>(table, {"div.approx.f32", "div.full.f32"},
                           [](float a, float b) { return canonical(a / b); });
  add<float, float, float>(table, {"div.approx.ftz.f32", "div.full.ftz.f32"},
                           [](float a, float b) { return flushed(canonical(flushed(a) / flushed(b))); });
  // The upper half of the result of 1 / a; the lower one is zero.
  add<double, double>(table, {"rcp.approx.ftz.f64"}, [](double a) {
    double x = std::fabs(a) < std::numeric_limits<double>::min() ? std::copysign(0.0, a) : a;
    double y = canonical(1 / x);
    y = std::fabs(y) < std::numeric_limits<double>::min() ? std::copysign(0.0, y) : y;
    return std::bit_cast<double>(std::bit_cast<uint64_t>(y) & 0xffffffff00000000ull);
  });
}
