#include "runtime/core/ScoredSet.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace divisi::runtime;

namespace {
/// The logarithm of p / (1 - p) for the softmax p of class `c`: it has the order of p, and differs where p would be rounded to 1. `sum` is that of
/// exp(score - most).
double oddsOf(const std::vector<float> &row, size_t c, double most, double sum) {
  double own = static_cast<double>(row[c]) - most, others = sum - std::exp(own);
  if (others < 0.5) { // of few digits
    others = 0;
    for (size_t other = 0; other < row.size(); ++other)
      others += other == c ? 0 : std::exp(static_cast<double>(row[other]) - most);
  }
  return own - std::log(others);
}
} // namespace

void ScoredSet::add(const char *scores, const char *labels, int64_t rows) {
  size_t classes = counts.size();
  std::vector<float> row(classes);
  for (int64_t r = 0; r < rows; ++r) {
    float label = 0;
    std::memcpy(&label, labels + static_cast<size_t>(r) * sizeof(float), sizeof(float));
    if (!(label >= 0 && label < static_cast<float>(classes)))
      continue;
    std::memcpy(row.data(), scores + static_cast<size_t>(r) * classes * sizeof(float), classes * sizeof(float));
    size_t chosen = 0, of = static_cast<size_t>(label);
    for (size_t c = 1; c < classes; ++c)
      if (!std::isnan(row[chosen]) && !(row[c] <= row[chosen])) // NaN comes before all numbers
        chosen = c;
    counts[of].both += chosen == of;
    counts[of].labels += 1;
    counts[chosen].chosen += 1;
    if (!keepsScores)
      continue;
    keptLabels.push_back(static_cast<int32_t>(of));
    double most = *std::max_element(row.begin(), row.end()), sum = 0;
    for (float score : row)
      sum += std::exp(static_cast<double>(score) - most);
    for (size_t c = classes == 2 ? 1 : 0; c < classes; ++c)
      kept.push_back(static_cast<float>(oddsOf(row, c, most, sum)));
  }
}

template <typename Ratio> double ScoredSet::mean(const Ratio &ratio) const {
  double sum = 0, number = 0;
  for (const Counts &c : counts)
    if (c.labels + c.chosen > 0) {
      sum += ratio(static_cast<double>(c.both), static_cast<double>(c.labels + c.chosen));
      number += 1;
    }
  return number > 0 ? sum / number : NAN;
}

double ScoredSet::f1() const {
  return mean([](double both, double all) { return 2 * both / all; });
}

double ScoredSet::iou() const {
  return mean([](double both, double all) { return both / (all - both); });
}

double ScoredSet::areaOf(int64_t positive) const {
  size_t width = counts.size() == 2 ? 1 : counts.size(), at = width == 1 ? 0 : static_cast<size_t>(positive);
  std::vector<std::pair<float, bool>> ordered;
  for (size_t i = 0; i < keptLabels.size(); ++i)
    ordered.emplace_back(kept[i * width + at], keptLabels[i] == positive);
  if (std::any_of(ordered.begin(), ordered.end(), [](const auto &pair) { return std::isnan(pair.first); }))
    return NAN;
  std::sort(ordered.begin(), ordered.end());
  double below = 0, right = 0, positives = 0; // of equal scores, half of the pairs are right
  for (size_t i = 0; i < ordered.size();) {
    double others = 0, own = 0;
    for (float score = ordered[i].first; i < ordered.size() && ordered[i].first == score; ++i)
      (ordered[i].second ? own : others) += 1;
    right += own * (below + others / 2);
    below += others;
    positives += own;
  }
  return positives > 0 && below > 0 ? right / (positives * below) : INFINITY;
}

double ScoredSet::auc() const {
  if (counts.size() == 2) {
    double area = areaOf(1);
    return std::isinf(area) ? NAN : area;
  }
  double sum = 0, number = 0;
  for (size_t c = 0; c < counts.size(); ++c)
    if (double area = areaOf(static_cast<int64_t>(c)); !std::isinf(area)) {
      sum += area;
      number += 1;
    }
  return number > 0 ? sum / number : NAN;
}
