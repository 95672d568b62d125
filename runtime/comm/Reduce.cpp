#include "runtime/comm/Reduce.h"
#include "runtime/core/Half.h"

#include <type_traits>

using namespace divisi::runtime;

namespace {
struct Add {
  template <typename T> T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) + static_cast<std::make_unsigned_t<T>>(b));
    else
      return a + b;
  }
};
struct Max {
  template <typename T> T operator()(T a, T b) const { return a > b || a != a ? a : b; }
};
struct Min {
  template <typename T> T operator()(T a, T b) const { return a < b || a != a ? a : b; }
};

template <typename T> struct Plain {
  using Stored = T;
  static T load(T x) { return x; }
  static T store(T x) { return x; }
};
struct Bfloat {
  using Stored = uint16_t;
  static float load(uint16_t x) { return bfloatToFloat(x); }
  static uint16_t store(float x) { return floatToBfloat(x); }
};
struct Half {
  using Stored = uint16_t;
  static float load(uint16_t x) { return halfToFloat(x); }
  static uint16_t store(float x) { return floatToHalf(x); }
};

/// Each element depends only on its own two operands, so operands and result may start at the same address.
template <typename Type, typename Op>
void loop(void *out, const void *first, const void *second, int64_t count, Op op) {
  using T = typename Type::Stored;
  auto *o = static_cast<T *>(out);
  const auto *a = static_cast<const T *>(first), *b = static_cast<const T *>(second);
#pragma omp simd
  for (int64_t i = 0; i < count; ++i)
    o[i] = Type::store(op(Type::load(a[i]), Type::load(b[i])));
}

template <typename Op> void dispatch(void *out, const void *a, const void *b, int64_t count, int64_t type, Op op) {
  switch (type) {
  case DIVISI_F32:
    return loop<Plain<float>>(out, a, b, count, op);
  case DIVISI_F64:
    return loop<Plain<double>>(out, a, b, count, op);
  case DIVISI_BF16:
    return loop<Bfloat>(out, a, b, count, op);
  case DIVISI_F16:
    return loop<Half>(out, a, b, count, op);
  case DIVISI_I64:
    return loop<Plain<int64_t>>(out, a, b, count, op);
  case DIVISI_I32:
    return loop<Plain<int32_t>>(out, a, b, count, op);
  case DIVISI_I16:
    return loop<Plain<int16_t>>(out, a, b, count, op);
  case DIVISI_I8:
    return loop<Plain<int8_t>>(out, a, b, count, op);
  case DIVISI_U8:
    return loop<Plain<uint8_t>>(out, a, b, count, op);
  }
}
} // namespace

void divisi::runtime::combine(void *out, const void *a, const void *b, int64_t count, int64_t type, int64_t reduction) {
  if (reduction == DIVISI_MAX)
    dispatch(out, a, b, count, type, Max());
  else if (reduction == DIVISI_MIN)
    dispatch(out, a, b, count, type, Min());
  else
    dispatch(out, a, b, count, type, Add());
}
