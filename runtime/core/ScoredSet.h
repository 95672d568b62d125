//===- ScoredSet.h - metrics that need a whole set --------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CORE_SCOREDSET_H
#define DIVISI_RUNTIME_CORE_SCOREDSET_H

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace divisi::runtime {

/// The scores and labels of an evaluation, of which those metrics are made that are no sums over the samples.
class ScoredSet {
public:
  /// `keepsScores`: for `auc`, which takes the memory of all scores.
  ScoredSet(int64_t classes, bool keepsScores) : counts(static_cast<size_t>(classes)), keepsScores(keepsScores) {}

  /// Adds rows of scores, one for each class, and their labels; a label that is no class does not count. Both may be unaligned.
  void add(const char *scores, const char *labels, int64_t rows);
  /// The macro averages of scikit-learn's f1_score and jaccard_score: over the classes that occur as a label or as the class of the
  /// largest score, of which the first counts. NaN without any.
  double f1() const;
  double iou() const;
  /// scikit-learn's roc_auc_score: of two classes, by the difference of their scores; of more, each against the rest by its softmax,
  /// the mean over the classes that have samples of both kinds. NaN without any.
  double auc() const;
  double named(std::string_view metric) const { return metric == "f1" ? f1() : metric == "iou" ? iou() : auc(); }

private:
  struct Counts {
    int64_t both = 0, labels = 0, chosen = 0;
  };
  template <typename Ratio> double mean(const Ratio &ratio) const;
  /// The share of pairs, of a sample of class `positive` and one of another, that are in the right order.
  double areaOf(int64_t positive) const;

  std::vector<Counts> counts; ///< by class
  bool keepsScores;
  std::vector<float> kept; ///< the odds of each class; of two classes, of the second. Rounded, so that equal ones are equal
  std::vector<int32_t> keptLabels;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CORE_SCOREDSET_H
