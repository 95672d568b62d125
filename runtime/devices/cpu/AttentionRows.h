//===- AttentionRows.h - softmax of scores, and its gradient ----*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DEVICES_CPU_ATTENTIONROWS_H
#define DIVISI_RUNTIME_DEVICES_CPU_ATTENTIONROWS_H

#include <cstdint>

namespace divisi::runtime {

/// The scores of one query that are not masked, by its dot products with the keys: x = scale * dots + bias.
struct ScoreRow {
  float *dots;       ///< replaced by the probabilities
  const float *bias; ///< null: none
  float scale;
  int64_t count;
};

/// Replaces the scores by their softmax; returns log(sum of e^x).
float softmaxOfRow(const ScoreRow &row);

/// Replaces the scores by their probabilities e^(x - norm), and `grad`, the gradient of these, by that of `dots`; `mean` is the dot product
/// of probabilities and gradient.
void softmaxGradOfRow(const ScoreRow &row, float *grad, float norm, float mean);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_DEVICES_CPU_ATTENTIONROWS_H
