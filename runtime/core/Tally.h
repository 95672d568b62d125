//===- Tally.h - results of steps and evaluations ---------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CORE_TALLY_H
#define DIVISI_RUNTIME_CORE_TALLY_H

#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace divisi::runtime {

/// The results of a step, an epoch or an evaluation. `accuracy` is the share of correct classes; `perplexity` is exp of
/// the mean cross entropy.
struct Measures {
  double loss = 0;
  std::optional<double> accuracy = {}, perplexity = {};
  std::map<std::string, double> metrics = {}; ///< of --metric, by name

  /// All of them with their names.
  std::vector<std::pair<std::string, double>> named() const {
    std::vector<std::pair<std::string, double>> all = {{"loss", loss}};
    if (accuracy)
      all.emplace_back("accuracy", *accuracy);
    if (perplexity)
      all.emplace_back("perplexity", *perplexity);
    all.insert(all.end(), metrics.begin(), metrics.end());
    return all;
  }
};

/// Sums over the batches of an epoch or an evaluation.
struct Tally {
  double lossSum = 0, lossWeight = 0, correctSum = 0, countSum = 0;
  std::optional<double> surpriseSum = {};                          ///< of the cross entropy of each label that counts
  std::map<std::string, std::pair<double, double>> metricSums = {}; ///< sums and weights

  void addLoss(double loss, double weight) {
    lossSum += loss * weight;
    lossWeight += weight;
  }
  void addAccuracy(double correct, double count) {
    correctSum += correct;
    countSum += count;
  }
  Measures measures() const {
    Measures m{lossWeight > 0 ? lossSum / lossWeight : NAN};
    if (countSum > 0)
      m.accuracy = correctSum / countSum;
    if (surpriseSum && countSum > 0)
      m.perplexity = std::exp(*surpriseSum / countSum);
    for (const auto &[name, sum] : metricSums)
      m.metrics[name] = sum.second > 0 ? sum.first / sum.second : NAN;
    return m;
  }
};

/// What the evaluations of a training have shown so far.
struct EvaluationHistory {
  int64_t step = -1;              ///< of the last evaluation
  int64_t bestStep = -1;          ///< of the one with the least loss; -1: none had a finite loss
  double bestLoss = 0;            ///< its loss
  int64_t withoutImprovement = 0; ///< evaluations since then

  /// Adds the evaluation after a step, unless it was added before.
  void add(int64_t after, double loss) {
    if (after == step)
      return;
    step = after;
    withoutImprovement += 1;
    if (!std::isfinite(loss) || (bestStep >= 0 && loss >= bestLoss))
      return;
    bestStep = after;
    bestLoss = loss;
    withoutImprovement = 0;
  }
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CORE_TALLY_H
