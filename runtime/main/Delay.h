//===- Delay.h - a rank that is slowed on purpose ---------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_MAIN_DELAY_H
#define DIVISI_RUNTIME_MAIN_DELAY_H

#include "runtime/core/Status.h"

#include <cstdint>
#include <random>
#include <string_view>

namespace divisi::runtime {

/// Sleeps before a rank's computations, to see what a straggler costs: DIVISI_DELAYS=RANK=MILLISECONDS,..., such as 0=10,1=10,2=30, or
/// 2=0-60 for times that are drawn evenly from a range (by rank: the same in each run).
class Delay {
public:
  /// That of a rank; `text` is the variable's value.
  static Result<Delay> parse(std::string_view text, int64_t rank);
  /// From the environment; without the variable there is none.
  static Result<Delay> ofRank(int64_t rank);
  /// Sleeps.
  void operator()();
  double from = 0, to = 0; ///< milliseconds

private:
  std::mt19937_64 random;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_MAIN_DELAY_H
