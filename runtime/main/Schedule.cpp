#include "runtime/main/Schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

using namespace divisi::runtime;

namespace {
constexpr std::array<const char *, 7> kindNames = {"constant",   "linear",    "cosine", "step",
                                                   "polynomial", "one-cycle", "wsd"};

/// Half a cosine from `from` to `to`.
double anneal(double from, double to, double progress) {
  return to + (from - to) * (1 + std::cos(std::numbers::pi * progress)) / 2;
}
} // namespace

const char *Schedule::nameOf(Kind kind) { return kindNames[static_cast<size_t>(kind)]; }

std::vector<std::string> Schedule::names() { return {kindNames.begin(), kindNames.end()}; }

std::optional<Schedule::Kind> Schedule::parse(std::string_view name) {
  const auto *it = std::find(kindNames.begin(), kindNames.end(), name);
  return it == kindNames.end() ? std::nullopt : std::optional(static_cast<Kind>(it - kindNames.begin()));
}

/// torch.optim.lr_scheduler.OneCycleLR with pct_start 0.3, div_factor 25, final_div_factor 1e4.
double Schedule::oneCycle(int64_t step, int64_t total) const {
  auto now = static_cast<double>(std::min(step, total - 1)), last = static_cast<double>(total - 1);
  double top = warmup > 0 ? static_cast<double>(warmup) : 0.3 * static_cast<double>(total) - 1;
  double first = peak() / 25;
  if (now <= top && top > 0)
    return anneal(first, peak(), now / top);
  double rest = last - std::max(top, 0.0);
  return anneal(peak(), first * 1e-4, rest > 0 ? (now - std::max(top, 0.0)) / rest : 1);
}

double Schedule::at(int64_t step, int64_t total) const {
  if (kind == Kind::OneCycle)
    return oneCycle(step, total);
  if (step < warmup && batchScale)
    return rate * (1 + (*batchScale - 1) * static_cast<double>(step) / static_cast<double>(warmup));
  if (step < warmup)
    return rate * static_cast<double>(step + 1) / static_cast<double>(warmup);
  auto since = static_cast<double>(step - warmup), all = static_cast<double>(std::max<int64_t>(total - warmup, 1));
  double progress = std::min(since / all, 1.0);
  switch (kind) {
  case Kind::Constant:
  case Kind::OneCycle:
    break;
  case Kind::Linear:
    return peak() * (1 - progress);
  case Kind::Cosine:
    return peak() * (1 + std::cos(std::numbers::pi * progress)) / 2;
  case Kind::Step: {
    auto falls = milestones.empty()
                     ? (step - warmup) / std::max<int64_t>(stepSize, 1)
                     : std::count_if(milestones.begin(), milestones.end(), [&](int64_t at) { return at <= step; });
    return peak() * std::pow(gamma, static_cast<double>(falls));
  }
  case Kind::Polynomial:
    return peak() * std::pow(1 - progress, power);
  case Kind::Wsd: {
    int64_t decay = decaySteps > 0 ? decaySteps : std::max<int64_t>(total / 10, 1);
    return peak() * std::clamp(static_cast<double>(total - step) / static_cast<double>(decay), 0.0, 1.0);
  }
  }
  return peak();
}
