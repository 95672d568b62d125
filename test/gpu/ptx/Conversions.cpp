// cvt: a register may be wider than the number in it.
#include "runtime/core/Half.h"
#include "test/gpu/ptx/Lanes.h"

#include <cmath>
#include <sstream>

using namespace divisi::test::ptx;
using namespace divisi::runtime;

namespace {
// Decoded: code.parts are bytes and sign of the source, bytes and sign of the result; code.bytes is a Rounding.
enum Rounding : uint8_t { none, nearest, zero, down, up };

/// The lower bytes of a register as a number of 64 bits.
uint64_t extended(uint64_t bits, unsigned bytes, bool isSigned) {
  unsigned shift = 64 - 8 * bytes;
  bits <<= shift;
  return isSigned ? (uint64_t)((int64_t)bits >> shift) : bits >> shift;
}

template <typename F, typename To, typename From> void convert(Warp &warp, const Code &code) {
  const From *a = warp.at<From>(code.a);
  To results[warpSize];
  for (unsigned i = 0; i < warpSize; ++i)
    results[i] = (To)F()((uint64_t)a[i], code);
  store(warp, code.d, results);
}
template <typename F, typename To> void convertTo(Warp &warp, const Code &code) {
  Run run = code.from == 2   ? convert<F, To, uint16_t>
            : code.from == 4 ? convert<F, To, uint32_t>
                             : convert<F, To, uint64_t>;
  run(warp, code);
}
/// F makes the bits of a result from those of a register, for registers of any size.
template <typename F> Run between(F) {
  return [](Warp &warp, const Code &code) {
    Run run = code.to == 2 ? convertTo<F, uint16_t> : code.to == 4 ? convertTo<F, uint32_t> : convertTo<F, uint64_t>;
    run(warp, code);
  };
}

uint64_t bitsOf(float x) { return std::bit_cast<uint32_t>(x != x ? std::bit_cast<float>(0x7fffffffu) : x); }
uint64_t bitsOf(double x) { return std::bit_cast<uint64_t>(x); }
template <typename T> T numberOf(uint64_t bits) {
  if constexpr (sizeof(T) == 4)
    return std::bit_cast<float>((uint32_t)bits);
  else
    return std::bit_cast<double>(bits);
}
template <typename T> T rounded(T x, uint8_t how) {
  return how == nearest ? std::nearbyint(x)
         : how == zero  ? std::trunc(x)
         : how == down  ? std::floor(x)
         : how == up    ? std::ceil(x)
                        : x;
}

template <typename T> T fromInteger(uint64_t bits, const Code &code) {
  uint64_t value = extended(bits, code.parts[0], code.parts[1]);
  return code.parts[1] ? (T)(int64_t)value : (T)value;
}
/// What is out of range becomes the nearest number; NaN becomes zero, or the upper bit alone if one of the types has 64
/// bits.
template <typename T> uint64_t toInteger(T x, const Code &code) {
  unsigned bits = 8 * code.parts[2];
  bool isSigned = code.parts[3];
  if (x != x)
    return sizeof(T) == 8 || bits == 64 ? 1ull << (bits - 1) : 0;
  x = rounded(x, code.bytes);
  T above = std::ldexp(T(1), (int)(isSigned ? bits - 1 : bits)), least = isSigned ? -above : T(0);
  if (x >= above)
    return (~0ull >> (64 - bits)) >> (isSigned ? 1 : 0);
  if (x <= least)
    return isSigned ? extended(1ull << (bits - 1), code.parts[2], true) : 0;
  return isSigned ? (uint64_t)(int64_t)x : (uint64_t)x;
}

Run integersToIntegers() {
  return between([](uint64_t a, const Code &code) {
    return extended(extended(a, code.parts[0], code.parts[1]), code.parts[2], code.parts[3]);
  });
}
template <typename T> Run integersToFloats() {
  return between([](uint64_t a, const Code &code) { return bitsOf(fromInteger<T>(a, code)); });
}
template <typename T> Run floatsToIntegers() {
  return between([](uint64_t a, const Code &code) { return toInteger(numberOf<T>(a), code); });
}
template <typename To, typename From> Run floatsToFloats() {
  return between([](uint64_t a, const Code &code) { return bitsOf((To)rounded(numberOf<From>(a), code.bytes)); });
}

// NaN has one pattern of bits.
uint16_t halfOf(float x) { return x != x ? 0x7fff : floatToHalf(x); }
uint16_t bfloatOf(float x) { return x != x ? 0x7fff : floatToBfloat(x); }

/// By source and result; what would round twice is left out.
Run find(const std::string &from, const std::string &to, bool isRounded) {
  bool fromInteger = from[0] == 's' || from[0] == 'u', toInteger = to[0] == 's' || to[0] == 'u';
  if (fromInteger && toInteger)
    return integersToIntegers();
  if (fromInteger)
    return to == "f32" ? integersToFloats<float>() : to == "f64" ? integersToFloats<double>() : nullptr;
  if (toInteger && isRounded)
    return from == "f32" ? floatsToIntegers<float>() : from == "f64" ? floatsToIntegers<double>() : nullptr;
  if (from == "f32" && to == "f32")
    return floatsToFloats<float, float>();
  if (from == "f64" && to == "f64")
    return floatsToFloats<double, double>();
  if (isRounded)
    return nullptr;
  if (from == "f32" && to == "f64")
    return floatsToFloats<double, float>();
  if (from == "f64" && to == "f32")
    return floatsToFloats<float, double>();
  if (from == "f16" && to == "f32")
    return between([](uint64_t a, const Code &) { return bitsOf(halfToFloat((uint16_t)a)); });
  if (from == "bf16" && to == "f32")
    return between([](uint64_t a, const Code &) { return bitsOf(bfloatToFloat((uint16_t)a)); });
  if (from == "f32" && to == "f16")
    return between([](uint64_t a, const Code &) -> uint64_t { return halfOf(numberOf<float>(a)); });
  if (from == "f32" && to == "bf16")
    return between([](uint64_t a, const Code &) -> uint64_t { return bfloatOf(numberOf<float>(a)); });
  return nullptr;
}
} // namespace

/// Of two numbers; the first one becomes the upper half.
void divisi::test::ptx::addConversions(Table &table) {
  add<uint32_t, float, float>(table, {"cvt.rn.f16x2.f32"},
                              [](float a, float b) { return (uint32_t)halfOf(a) << 16 | halfOf(b); });
  add<uint32_t, float, float>(table, {"cvt.rn.bf16x2.f32"},
                              [](float a, float b) { return (uint32_t)bfloatOf(a) << 16 | bfloatOf(b); });
}

bool divisi::test::ptx::decodeConversion(const std::string &opcode, Code &code) {
  std::istringstream words(opcode);
  std::vector<std::string> parts;
  for (std::string word; std::getline(words, word, '.');)
    parts.push_back(word);
  if (parts.size() < 3)
    return false;
  std::string from = parts.back(), to = parts[parts.size() - 2];
  static const std::map<std::string, unsigned> bits = {{"u8", 8},   {"s8", 8},   {"u16", 16},  {"s16", 16},
                                                       {"u32", 32}, {"s32", 32}, {"u64", 64},  {"s64", 64},
                                                       {"f16", 16}, {"f32", 32}, {"bf16", 16}, {"f64", 64}};
  static const std::map<std::string, Rounding> modes = {
      {"rn", none}, {"rni", nearest}, {"rzi", zero}, {"rmi", down}, {"rpi", up}};
  if (!bits.contains(from) || !bits.contains(to) || parts.size() > 4 ||
      (parts.size() == 4 && !modes.contains(parts[1])))
    return false;
  code.bytes = parts.size() == 4 ? modes.at(parts[1]) : none;
  code.parts = {bits.at(from) / 8, from[0] == 's', bits.at(to) / 8, to[0] == 's'};
  code.run = find(from, to, code.bytes != none);
  return code.run != nullptr;
}
