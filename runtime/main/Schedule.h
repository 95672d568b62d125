//===- Schedule.h - the learning rate of a step -----------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_MAIN_SCHEDULE_H
#define DIVISI_RUNTIME_MAIN_SCHEDULE_H

#include <cstdint>
#include <optional>
#include <string_view>

namespace divisi::runtime {

/// The learning rate as a pure function of the step, so that a resumed training continues it exactly.
struct Schedule {
  enum class Kind { Constant, Linear, Cosine, Step };
  static std::optional<Kind> parse(std::string_view name);
  static const char *nameOf(Kind kind);

  Kind kind = Kind::Constant;
  double rate = 0.01;
  int64_t warmup = 0;   ///< steps in which the rate rises linearly to `rate`
  int64_t stepSize = 0; ///< Step: steps between two decreases
  double gamma = 0.1;   ///< Step: the factor of each decrease

  /// The rate of a step (from 0). Linear and Cosine decrease to 0 at step `total`.
  double at(int64_t step, int64_t total) const;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_MAIN_SCHEDULE_H
