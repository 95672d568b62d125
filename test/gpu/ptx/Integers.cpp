// Arithmetic of integers, and of bits.
#include "test/gpu/ptx/Lanes.h"

#include <algorithm>
#include <bit>
#include <limits>

using namespace divisi::test::ptx;

namespace {
template <typename T> constexpr unsigned bitsOf = 8 * sizeof(T);
template <typename T> using Unsigned = std::make_unsigned_t<T>;

/// The upper half of a product.
template <typename T> T high(T a, T b) {
  using Wide = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
  return (T)(((Wide)a * (Wide)b) >> bitsOf<T>);
}
template <typename T> T shiftedRight(T a, uint32_t by) {
  if (by >= bitsOf<T>)
    return std::is_signed_v<T> && a < 0 ? T(-1) : T(0);
  return (T)(a >> by);
}
/// A field of `length` bits from `position` on; its sign is that of its last bit, or of the number's.
template <typename T> T field(T a, uint32_t position, uint32_t length) {
  position &= 0xff;
  length &= 0xff;
  if (length == 0)
    return 0;
  uint32_t end = std::min(position + length, bitsOf<T>);
  Unsigned<T> bits = position >= bitsOf<T> ? Unsigned<T>(0) : Unsigned<T>(Unsigned<T>(a) >> position);
  uint32_t count = end > position ? end - position : 0;
  Unsigned<T> mask = count >= bitsOf<T> ? ~Unsigned<T>(0) : Unsigned<T>((Unsigned<T>(1) << count) - 1);
  bool isNegative = std::is_signed_v<T> && (Unsigned<T>(a) >> (end - 1) & 1);
  return (T)((bits & mask) | (isNegative ? Unsigned<T>(~mask) : Unsigned<T>(0)));
}

/// Of s16 to s64 and u16 to u64. Where signs do not matter PTX allows either.
template <typename T> void addType(Table &table, const std::string &type) {
  using U = Unsigned<T>;
  add<U, U, U>(table, {"add" + type}, [](U a, U b) { return U(a + b); });
  add<U, U, U>(table, {"sub" + type}, [](U a, U b) { return U(a - b); });
  add<U, U, U>(table, {"mul.lo" + type}, [](U a, U b) { return U(uint64_t(a) * b); });
  add<U, U, U, U>(table, {"mad.lo" + type}, [](U a, U b, U c) { return U(uint64_t(a) * b + c); });
  add<T, T, T>(table, {"mul.hi" + type}, [](T a, T b) { return high(a, b); });
  add<T, T, T, T>(table, {"mad.hi" + type}, [](T a, T b, T c) { return T(U(high(a, b)) + U(c)); });
  add<T, T, T>(table, {"min" + type}, [](T a, T b) { return std::min(a, b); });
  add<T, T, T>(table, {"max" + type}, [](T a, T b) { return std::max(a, b); });
  // (Lanes that are not active have any numbers.)
  add<T, T, T>(table, {"div" + type}, [](T a, T b) {
    return b == 0 ? T(-1) : b == T(-1) && std::is_signed_v<T> ? T(U(0) - U(a)) : T(a / b);
  });
  add<T, T, T>(table, {"rem" + type}, [](T a, T b) {
    return b == 0 ? a : b == T(-1) && std::is_signed_v<T> ? T(0) : T(a % b);
  });
  add<T, T, uint32_t>(table, {"shr" + type}, [](T a, uint32_t by) { return shiftedRight(a, by); });
}
template <typename T> void addSigned(Table &table, const std::string &type) {
  using U = Unsigned<T>;
  add<U, U>(table, {"neg" + type}, [](U a) { return U(0 - a); });
  add<T, T>(table, {"abs" + type}, [](T a) { return a < 0 ? T(U(0) - U(a)) : a; });
}
/// Results of twice the width.
template <typename T, typename Wide> void addWide(Table &table, const std::string &type) {
  using U = Unsigned<Wide>;
  add<Wide, T, T>(table, {"mul.wide" + type}, [](T a, T b) { return Wide(Wide(a) * Wide(b)); });
  add<Wide, T, T, Wide>(table, {"mad.wide" + type}, [](T a, T b, Wide c) { return Wide(U(Wide(a) * Wide(b)) + U(c)); });
}
template <typename U> void addBits(Table &table, const std::string &type) {
  add<U, U, U>(table, {"and" + type}, [](U a, U b) { return U(a & b); });
  add<U, U, U>(table, {"or" + type}, [](U a, U b) { return U(a | b); });
  add<U, U, U>(table, {"xor" + type}, [](U a, U b) { return U(a ^ b); });
  add<U, U>(table, {"not" + type}, [](U a) { return U(~a); });
  add<U, U, uint32_t>(table, {"shl" + type}, [](U a, uint32_t by) { return by >= bitsOf<U> ? U(0) : U(a << by); });
  add<U, U, uint32_t>(table, {"shr" + type}, [](U a, uint32_t by) { return shiftedRight(a, by); });
}
template <typename T> void addField(Table &table, const std::string &type) {
  add<T, T, uint32_t, uint32_t>(table, {"bfe" + type},
                                [](T a, uint32_t at, uint32_t length) { return field(a, at, length); });
}

/// The upper half of a * b + c + carry, and the lower one, which makes the carry.
void lowWithCarryOut(Warp &warp, const Code &code) {
  const auto *a = warp.at<uint32_t>(code.a), *b = warp.at<uint32_t>(code.b), *c = warp.at<uint32_t>(code.c);
  uint32_t results[warpSize], carry = 0;
  for (unsigned i = 0; i < warpSize; ++i) {
    results[i] = a[i] * b[i] + c[i];
    carry |= uint32_t(results[i] < c[i]) << i;
  }
  warp.carry = (warp.carry & ~warp.active) | (carry & warp.active);
  store(warp, code.d, results);
}
void highWithCarry(Warp &warp, const Code &code) {
  const auto *a = warp.at<uint32_t>(code.a), *b = warp.at<uint32_t>(code.b), *c = warp.at<uint32_t>(code.c);
  uint32_t results[warpSize];
  for (unsigned i = 0; i < warpSize; ++i)
    results[i] = high(a[i], b[i]) + c[i] + (warp.carry >> i & 1);
  store(warp, code.d, results);
}
} // namespace

void divisi::test::ptx::addIntegers(Table &table) {
  addType<int16_t>(table, ".s16");
  addType<uint16_t>(table, ".u16");
  addType<int32_t>(table, ".s32");
  addType<uint32_t>(table, ".u32");
  addType<int64_t>(table, ".s64");
  addType<uint64_t>(table, ".u64");
  addSigned<int16_t>(table, ".s16");
  addSigned<int32_t>(table, ".s32");
  addSigned<int64_t>(table, ".s64");
  addWide<int16_t, int32_t>(table, ".s16");
  addWide<uint16_t, uint32_t>(table, ".u16");
  addWide<int32_t, int64_t>(table, ".s32");
  addWide<uint32_t, uint64_t>(table, ".u32");
  addBits<uint16_t>(table, ".b16");
  addBits<uint32_t>(table, ".b32");
  addBits<uint64_t>(table, ".b64");
  addField<int32_t>(table, ".s32");
  addField<uint32_t>(table, ".u32");
  addField<int64_t>(table, ".s64");
  addField<uint64_t>(table, ".u64");
  add<uint32_t, uint32_t>(table, {"popc.b32"}, [](uint32_t a) { return (uint32_t)std::popcount(a); });
  add<uint32_t, uint64_t>(table, {"popc.b64"}, [](uint64_t a) { return (uint32_t)std::popcount(a); });
  add<uint32_t, uint32_t>(table, {"clz.b32"}, [](uint32_t a) { return (uint32_t)std::countl_zero(a); });
  add<uint32_t, uint64_t>(table, {"clz.b64"}, [](uint64_t a) { return (uint32_t)std::countl_zero(a); });
  // Shifts of two numbers side by side, (b, a).
  add<uint32_t, uint32_t, uint32_t, uint32_t>(table, {"shf.l.wrap.b32"}, [](uint32_t a, uint32_t b, uint32_t by) {
    return (uint32_t)((((uint64_t)b << 32 | a) << (by & 31)) >> 32);
  });
  add<uint32_t, uint32_t, uint32_t, uint32_t>(table, {"shf.r.wrap.b32"}, [](uint32_t a, uint32_t b, uint32_t by) {
    return (uint32_t)(((uint64_t)b << 32 | a) >> (by & 31));
  });
  // Any four bytes of two numbers.
  add<uint32_t, uint32_t, uint32_t, uint32_t>(table, {"prmt.b32"}, [](uint32_t a, uint32_t b, uint32_t which) {
    uint64_t both = (uint64_t)b << 32 | a;
    uint32_t result = 0;
    for (unsigned i = 0; i < 4; ++i) {
      uint32_t choice = which >> (4 * i) & 0xf;
      auto byte = (uint8_t)(both >> (8 * (choice & 7)));
      result |= (uint32_t)(choice & 8 ? (byte & 0x80 ? 0xff : 0) : byte) << (8 * i);
    }
    return result;
  });
  table["mad.lo.cc.u32"] = {lowWithCarryOut, {4, 4, 4, 4}};
  table["madc.hi.u32"] = {highWithCarry, {4, 4, 4, 4}};
}
