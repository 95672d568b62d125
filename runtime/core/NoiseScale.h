//===- NoiseScale.h - the noise scale of gradients --------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CORE_NOISESCALE_H
#define DIVISI_RUNTIME_CORE_NOISESCALE_H

#include <cmath>
#include <cstdint>

namespace divisi::runtime {

/// Estimates of one step from the squares of gradients' norms over two sizes of batches (McCandlish et al., "An Empirical
/// Model of Large-Batch Training", arXiv 1812.06162, appendix A.1). Over b samples that are drawn independently,
/// E|G_b|^2 = |G|^2 + tr(Sigma) / b, where G is the true gradient and Sigma the covariance of one sample's gradient.
struct NoiseEstimate {
  double gradient = 0; ///< of |G|^2; unbiased, so that it may be negative
  double variance = 0; ///< of tr(Sigma); unbiased

  /// From the mean square `small` over `shares` equal shares of a batch (at least 2), and the square `big` over the batch.
  static NoiseEstimate of(double small, double big, int64_t batch, int64_t shares) {
    const auto n = static_cast<double>(shares);
    return {(n * big - small) / (n - 1), (small - big) * static_cast<double>(batch) / (n - 1)};
  }
};

/// The noise scale tr(Sigma) / |G|^2 in samples: batches that are much smaller waste steps, much larger ones waste samples. It
/// is the quotient of two moving averages, because the quotient of the estimates of one step is biased.
struct NoiseScale {
  static constexpr double decay = 0.99; ///< of the averages, which begin with 0; the quotient does not depend on that
  double gradient = 0, variance = 0;    ///< the averages

  /// Adds a step, unless its numbers are not finite (a step that fp16 skips).
  void add(const NoiseEstimate &step) {
    if (!std::isfinite(step.gradient) || !std::isfinite(step.variance))
      return;
    gradient = decay * gradient + (1 - decay) * step.gradient;
    variance = decay * variance + (1 - decay) * step.variance;
  }
  /// NaN while an average is not positive: more steps are needed.
  double scale() const { return gradient > 0 && variance > 0 ? variance / gradient : NAN; }
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CORE_NOISESCALE_H
