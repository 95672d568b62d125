#include "compiler/Report/Numbers.h"

#include "llvm/Support/raw_ostream.h"

#include "llvm/Support/Format.h"

#include <cmath>

using namespace divisi;

std::string compiler::digits(double value) {
  constexpr int significant = 3, mostDecimals = 9;
  if (!std::isfinite(value))
    return value > 0 ? "infinite" : "unknown";
  double size = std::abs(value);
  int exponent = size > 0 ? (int)std::floor(std::log10(size)) : 0;
  double step = std::pow(10.0, exponent - significant + 1);
  double rounded = size > 0 ? std::round(size / step) * step : 0;
  if (rounded < std::pow(10.0, -mostDecimals))
    return "0";
  if (rounded >= std::pow(10.0, exponent + 1))
    ++exponent; // 9.996 is 10.0
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.*f", std::max(0, significant - 1 - exponent), rounded);
  if (text.find('.') != std::string::npos)
    text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.')
    text.pop_back();
  return (value < 0 ? "-" : "") + text;
}

std::string compiler::scaled(double value, llvm::StringRef unit) {
  static constexpr const char *smaller[] = {"", "m", "u", "n"}, *larger[] = {"", "k", "M", "G", "T", "P"};
  bool whole = unit.starts_with("B") || unit == "samples";
  int step = 0;
  while (std::abs(value) >= 999.5 && step < 5)
    value /= 1000, ++step;
  while (!whole && value != 0 && std::abs(value) < 0.9995 && step > -3)
    value *= 1000, --step;
  return digits(value) + " " + (step < 0 ? smaller[-step] : larger[step]) + unit.str();
}

std::string compiler::percent(double share) {
  constexpr double least = 1e-7;
  return (std::abs(share) < least ? "0" : digits(share * 100)) + " %";
}

std::string compiler::numbered(int64_t count, llvm::StringRef what) {
  return std::to_string(count) + " " + what.str() + (count == 1 ? "" : "s");
}
