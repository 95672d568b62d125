#include "runtime/main/Schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

using namespace divisi::runtime;

namespace {
constexpr std::array<const char *, 4> names = {"constant", "linear", "cosine", "step"};
} // namespace

const char *Schedule::nameOf(Kind kind) { return names[static_cast<size_t>(kind)]; }

std::optional<Schedule::Kind> Schedule::parse(std::string_view name) {
  const auto *it = std::find(names.begin(), names.end(), name);
  return it == names.end() ? std::nullopt : std::optional(static_cast<Kind>(it - names.begin()));
}

double Schedule::at(int64_t step, int64_t total) const {
  if (step < warmup)
    return rate * static_cast<double>(step + 1) / static_cast<double>(warmup);
  auto since = static_cast<double>(step - warmup), all = static_cast<double>(std::max<int64_t>(total - warmup, 1));
  double progress = std::min(since / all, 1.0);
  switch (kind) {
  case Kind::Constant:
    break;
  case Kind::Linear:
    return rate * (1 - progress);
  case Kind::Cosine:
    return rate * (1 + std::cos(std::numbers::pi * progress)) / 2;
  case Kind::Step:
    return rate * std::pow(gamma, static_cast<double>((step - warmup) / std::max<int64_t>(stepSize, 1)));
  }
  return rate;
}
