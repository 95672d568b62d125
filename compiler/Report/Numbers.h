#pragma once
#include "llvm/ADT/StringRef.h"

#include <string>

namespace divisi::compiler {

/// Three significant digits for reading: no exponent, no trailing zeros. What is smaller than a billionth is 0: sums of
/// floating-point numbers leave so much of nothing.
std::string digits(double value);
/// The same with a unit and its prefix: "1.23 GB".
std::string scaled(double value, llvm::StringRef unit);
/// A share as a percentage: "0.068 %". Less than a hundred thousandth of a percent is 0.
std::string percent(double share);
/// A number of things: "1 rank", "2 ranks".
std::string numbered(int64_t count, llvm::StringRef what);

} // namespace divisi::compiler
