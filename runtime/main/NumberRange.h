//===- NumberRange.h - numbers of flags -------------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_MAIN_NUMBERRANGE_H
#define DIVISI_RUNTIME_MAIN_NUMBERRANGE_H

#include <CLI/CLI.hpp>
#include <sstream>
#include <string>

namespace divisi::runtime {

/// As CLI::Range for floating-point numbers, and "nan" is in no range.
inline CLI::Validator numberBetween(double least, double most) {
  auto check = [=](const std::string &text) -> std::string {
    double value = 0;
    if (CLI::detail::lexical_cast(text, value) && value >= least && value <= most)
      return {};
    std::ostringstream out;
    out << "Value " << text << " not in range " << least << " to " << most;
    return out.str();
  };
  return {check, "FLOAT"};
}

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_MAIN_NUMBERRANGE_H
