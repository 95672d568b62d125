#include "runtime/core/Half.h"
#include "test/runtime/Util.h"

#include <bit>

using namespace divisi::runtime;

namespace {
/// The definition of a 16-bit float with this many bits of fraction and this bias.
double define(uint16_t bits, int fraction, int bias) {
  int exponent = (bits & 0x7fff) >> fraction, mantissa = bits & ((1 << fraction) - 1);
  double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == (0x7fff >> fraction))
    return mantissa ? NAN : sign * INFINITY;
  if (exponent == 0)
    return sign * std::ldexp(mantissa, 1 - bias - fraction);
  return sign * std::ldexp(mantissa + (1 << fraction), exponent - bias - fraction);
}

TEST(HalfTest, EveryValueWidensExactlyAndComesBack) {
  for (uint32_t i = 0; i < 65536; ++i) {
    auto bits = static_cast<uint16_t>(i);
    double half = define(bits, 10, 15), brain = define(bits, 7, 127);
    if (std::isnan(half))
      ASSERT_TRUE(std::isnan(halfToFloat(bits)) && std::isnan(halfToFloat(floatToHalf(halfToFloat(bits)))));
    else
      ASSERT_TRUE(halfToFloat(bits) == half && floatToHalf(static_cast<float>(half)) == bits) << i;
    if (std::isnan(brain))
      ASSERT_TRUE(std::isnan(bfloatToFloat(bits)) && std::isnan(bfloatToFloat(floatToBfloat(bfloatToFloat(bits)))));
    else
      ASSERT_TRUE(bfloatToFloat(bits) == brain && floatToBfloat(static_cast<float>(brain)) == bits) << i;
  }
}

/// Between two neighbours the nearer one is taken, and in the middle the even one.
TEST(HalfTest, RoundsToNearestEven) {
  for (int fraction : {10, 7})
    for (uint32_t i = 0; i + 1 < (fraction == 10 ? 0x7c00u : 0x7f80u); ++i) {
      int bias = fraction == 10 ? 15 : 127;
      double low = define(static_cast<uint16_t>(i), fraction, bias),
             high = define(static_cast<uint16_t>(i + 1), fraction, bias);
      if (std::isinf(high))
        high = std::ldexp(1, fraction == 10 ? 16 : 128); // what the next exponent would be
      auto round = [&](double x) {
        auto value = static_cast<float>(x);
        return fraction == 10 ? floatToHalf(value) : floatToBfloat(value);
      };
      double middle = low / 2 + high / 2;
      ASSERT_EQ(round(middle), i % 2 == 0 ? i : i + 1);
      if (fraction == 10 || i > 64) { // float itself is exact there
        ASSERT_EQ(round(std::nextafter(static_cast<float>(middle), 0.0f)), i);
        ASSERT_EQ(round(std::nextafter(static_cast<float>(middle), INFINITY)), i + 1);
      }
    }
  EXPECT_EQ(floatToHalf(1e6f), 0x7c00);
  EXPECT_EQ(floatToHalf(-INFINITY), 0xfc00);
}

TEST(DataTypeTest, NumbersComeBackInEveryType) {
  for (const char *name : {"F32", "F64", "F16", "BF16", "I64", "I32", "I16", "I8", "U8", "U16", "U32", "U64", "BOOL"}) {
    DataType type = *parseDataType(name);
    EXPECT_STREQ(nameOf(type), name);
    uint64_t room = ~uint64_t(0);
    writeNumber(&room, type, 1);
    EXPECT_EQ(readNumber(&room, type), 1) << name;
    writeInteger(&room, type, 100);
    EXPECT_EQ(readInteger(&room, type), 100) << name;
    if (widthOf(type) < 8) {
      EXPECT_EQ(room >> (8 * widthOf(type)), ~uint64_t(0) >> (8 * widthOf(type))) << name;
    }
  }
  EXPECT_FALSE(parseDataType("f32"));
  EXPECT_EQ(byteCount({3, 4}, 8), 96);
  EXPECT_EQ(byteCount({}, 8), 8);
  EXPECT_EQ(byteCount({0, int64_t(1) << 58}, 8), 0);
  EXPECT_FALSE(byteCount({int64_t(1) << 31, int64_t(1) << 31}, 8));
  EXPECT_FALSE(byteCount({-1}, 8));
  EXPECT_EQ(toString(Shape{64, 1, 8}), "[64, 1, 8]");
  EXPECT_EQ(toString(Shape{}), "[]");
}
} // namespace
