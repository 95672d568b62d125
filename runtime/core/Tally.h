//===- Tally.h - results of steps and evaluations ---------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CORE_TALLY_H
#define DIVISI_RUNTIME_CORE_TALLY_H

#include <cmath>
#include <cstdint>
#include <optional>

namespace divisi::runtime {

/// The results of a step, an epoch or an evaluation. `accuracy` is the share of correct classes; `perplexity` is exp(loss).
struct Measures {
  double loss = 0;
  std::optional<double> accuracy = {}, perplexity = {};
};

/// Sums over the batches of an epoch or an evaluation.
struct Tally {
  double lossSum = 0, lossWeight = 0, correctSum = 0, countSum = 0;

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
