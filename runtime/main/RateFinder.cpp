#include "runtime/main/RateFinder.h"
#include "runtime/core/Status.h"
#include "runtime/main/Log.h"

#include <algorithm>
#include <cmath>

using namespace divisi::runtime;

namespace {
constexpr double kept = 0.9;     ///< of the smoothed loss in each step
constexpr double diverges = 4;   ///< times the least loss
constexpr size_t shortest = 10;  ///< steps before a loss can be called diverged, and that a slope needs
} // namespace

double RateFinder::rateAt(int64_t step, int64_t total) {
  double part = static_cast<double>(step) / static_cast<double>(std::max<int64_t>(total - 1, 1));
  return lowest * std::pow(highest / lowest, part);
}

bool RateFinder::add(double rate, double loss) {
  if (!std::isfinite(loss))
    return false;
  average = kept * average + (1 - kept) * loss;
  double smoothed = average / (1 - std::pow(kept, static_cast<double>(points.size() + 1)));
  least = points.empty() ? smoothed : std::min(least, smoothed);
  points.push_back({rate, smoothed});
  // Of losses that may be negative the distance counts, from the least to where they began.
  double limit = least > 0 ? diverges * least : least + (diverges - 1) * std::max(std::abs(least), points.front().loss - least);
  return points.size() < shortest || smoothed <= limit;
}

std::string RateFinder::summary() const {
  if (points.size() < shortest)
    return concat("too few steps with a finite loss (", points.size(), ") to say which learning rate is good");
  size_t lowestAt = 0, steepest = 0;
  double slope = 0;
  for (size_t i = 0; i < points.size(); ++i) {
    if (points[i].loss < points[lowestAt].loss)
      lowestAt = i;
    if (i == 0 || i + 1 == points.size())
      continue;
    double fall = points[i - 1].loss - points[i + 1].loss; // the rates are equally far apart in their logarithm
    if (fall > slope)
      slope = fall, steepest = i;
  }
  if (slope <= 0)
    return "the loss does not fall at any learning rate";
  if (lowestAt < steepest)
    return concat("the losses differ too much between the batches to say which learning rate is good: the loss is least at ",
                  formatNumber(points[lowestAt].rate), ", before it falls fastest, at ", formatNumber(points[steepest].rate),
                  "; try more steps (--steps)");
  return concat("the loss falls fastest at --lr ", formatNumber(points[steepest].rate), " and is least, ", formatNumber(points[lowestAt].loss),
                ", at ", formatNumber(points[lowestAt].rate), ": take the first, or a tenth of the second, ",
                formatNumber(points[lowestAt].rate / 10));
}
