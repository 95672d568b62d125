#pragma once
#include <cstdint>

namespace divisi::graph {

/// What is left of a number without its fraction: that of a model may be anything. The largest or smallest integer stands for what is
/// beyond it, 0 for what is no number.
constexpr int64_t wholeNumber(double value) {
  if (value != value)
    return 0;
  return value >= 0x1p63 ? INT64_MAX : value < -0x1p63 ? INT64_MIN : static_cast<int64_t>(value);
}
static_assert(wholeNumber(-2.5) == -2 && wholeNumber(0x1p63) == INT64_MAX && wholeNumber(-1e300) == INT64_MIN &&
              wholeNumber(0x1p63 - 1024) == INT64_MAX - 1023 && wholeNumber(__builtin_nan("")) == 0);

} // namespace divisi::graph
