//===- Schedule.h - the learning rate of a step -----------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_MAIN_SCHEDULE_H
#define DIVISI_RUNTIME_MAIN_SCHEDULE_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace divisi::runtime {

/// The learning rate as a pure function of the step, so that a resumed training continues it exactly.
struct Schedule {
  enum class Kind { Constant, Linear, Cosine, Step, Polynomial, OneCycle, Wsd };
  static std::optional<Kind> parse(std::string_view name);
  static const char *nameOf(Kind kind);
  /// The names of all kinds.
  static std::vector<std::string> names();
  /// Whether the rate depends on the number of steps.
  bool needsTotal() const { return kind != Kind::Constant && kind != Kind::Step; }

  Kind kind = Kind::Constant;
  double rate = 0.01;
  int64_t warmup = 0;   ///< steps in which the rate rises linearly to `rate`; OneCycle: until the peak, 0: 0.3 of all
  int64_t stepSize = 0; ///< Step: steps between two decreases
  double gamma = 0.1;   ///< Step: the factor of each decrease
  std::vector<int64_t> milestones{}; ///< Step: the steps from which the rate is lower, instead of stepSize
  double power = 1;                  ///< Polynomial: the exponent
  int64_t decaySteps = 0;            ///< Wsd: the last steps, in which the rate falls; 0: a tenth of all
  std::optional<double> batchScale{}; ///< the factor of `rate` for the batch; the warm-up then begins at `rate`

  /// The rate of a step (from 0). Linear, Cosine, Polynomial and Wsd decrease to 0 at step `total`, OneCycle to 4e-6 of
  /// the peak in the last step. Step, Polynomial and OneCycle are PyTorch's MultiStepLR (StepLR), PolynomialLR and
  /// OneCycleLR; Wsd is warm-up, stable rate and linear decay (arXiv 2405.18392); the warm-up with a batchScale is the
  /// gradual one of arXiv 1706.02677, section 2.2.
  double at(int64_t step, int64_t total) const;

private:
  double peak() const { return rate * batchScale.value_or(1); }
  double oneCycle(int64_t step, int64_t total) const;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_MAIN_SCHEDULE_H
