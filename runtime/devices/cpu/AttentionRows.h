//===- AttentionRows.h - softmax of scores, and its gradient ----*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DEVICES_CPU_ATTENTIONROWS_H
#define DIVISI_RUNTIME_DEVICES_CPU_ATTENTIONROWS_H

#include <cstdint>

namespace divisi::runtime {

/// The scores of one query that are not masked, before they are scaled: x = scale * products + bias.
struct ScoreRow {
  float *products; ///< replaced by the probabilities
  const float *bias; ///< null: none
  float scale;
  int64_t count;
};

/// Replaces the scores by their softmax; returns log(sum of e^x).
float softmaxOfRow(const ScoreRow &row);

/// Replaces the scores by their probabilities e^(x - norm), and `grad`, the gradient of these, by that of the products; `mean` is the
/// sum of the products of both.
void softmaxGradOfRow(const ScoreRow &row, float *grad, float norm, float mean);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_DEVICES_CPU_ATTENTIONROWS_H
