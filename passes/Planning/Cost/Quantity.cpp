#include "passes/Planning/Cost/Quantity.h"
#include "llvm/ADT/ArrayRef.h"

#include <charconv>

using namespace divisi;
using namespace divisi::planning;
using llvm::StringRef;

namespace {

struct Range {
  double least, most;
  StringRef expectation;
};

/// By unit: the least and the greatest value, and the text of errors.
constexpr Range ranges[] = {
    {1, 1e18, "a number of bytes from 1 to 1e18, or text such as \"80GB\""},
    {1, 1e18, "a number of bytes/s from 1 to 1e18, or text such as \"900GB/s\" or \"25Gb/s\""},
    {1, 1e21, "a number of flop/s from 1 to 1e21, or text such as \"989TFLOPS\""},
    {1e-12, 1e3, "a number of seconds from 1e-12 to 1000, or text such as \"5us\""},
    {1e-6, 1, "a number from 0.000001 to 1"},
};

/// A value is multiplied by `times` and divided by `over`: with both, the result is the double nearest to the decimal
/// text.
struct Scale {
  StringRef name;
  double times, over = 1;
};

constexpr Scale decimal[] = {{"", 1}, {"k", 1e3}, {"K", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}, {"P", 1e15}};
constexpr Scale binary[] = {{"Ki", 0x1p10}, {"Mi", 0x1p20}, {"Gi", 0x1p30}, {"Ti", 0x1p40}};
constexpr Scale small[] = {{"", 1}, {"m", 1, 1e3}, {"u", 1, 1e6}, {"µ", 1, 1e6}, {"n", 1, 1e9}};

constexpr Scale bytes[] = {{"B", 1}};
constexpr Scale bytesPerSecond[] = {{"B/s", 1}, {"b/s", 1, 8}, {"bit/s", 1, 8}};
constexpr Scale flopsPerSecond[] = {{"FLOPS", 1}, {"flops", 1}, {"FLOP/s", 1}, {"flop/s", 1}};
constexpr Scale seconds[] = {{"s", 1}};

std::optional<double> scaled(double value, StringRef suffix, llvm::ArrayRef<Scale> prefixes,
                             llvm::ArrayRef<Scale> bases) {
  for (const Scale &prefix : prefixes)
    for (const Scale &base : bases)
      if (suffix.size() == prefix.name.size() + base.name.size() && suffix.starts_with(prefix.name) &&
          suffix.ends_with(base.name))
        return value * prefix.times / (prefix.over * base.over);
  return std::nullopt;
}

} // namespace

bool planning::inRange(Unit unit, double value) {
  const Range &range = ranges[(int)unit];
  return value >= range.least && value <= range.most; // false for NaN
}

StringRef planning::expectation(Unit unit) { return ranges[(int)unit].expectation; }

std::optional<double> planning::parseQuantity(StringRef text, Unit unit) {
  text = text.trim(' ');
  double value;
  auto [end, status] = std::from_chars(text.begin(), text.end(), value);
  if (status != std::errc())
    return std::nullopt;
  StringRef suffix = text.drop_front(end - text.begin()).ltrim(' ');
  std::optional<double> result;
  switch (unit) {
  case Unit::bytes:
    result = scaled(value, suffix, binary, bytes);
    return result ? result : scaled(value, suffix, decimal, bytes);
  case Unit::bytesPerSecond:
    result = scaled(value, suffix, binary, bytesPerSecond);
    return result ? result : scaled(value, suffix, decimal, bytesPerSecond);
  case Unit::flopsPerSecond:
    return scaled(value, suffix, decimal, flopsPerSecond);
  case Unit::seconds:
    return scaled(value, suffix, small, seconds);
  case Unit::share:
    return std::nullopt;
  }
  return std::nullopt;
}
