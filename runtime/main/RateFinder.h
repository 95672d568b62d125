//===- RateFinder.h - the learning rate range test --------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_MAIN_RATEFINDER_H
#define DIVISI_RUNTIME_MAIN_RATEFINDER_H

#include <cstdint>
#include <string>
#include <vector>

namespace divisi::runtime {

/// The learning rate range test (arXiv 1506.01186): the rate grows by the same factor in every step, until the smoothed
/// loss is four times its least value, or is not finite.
class RateFinder {
public:
  static constexpr double lowest = 1e-7, highest = 10;
  static constexpr int64_t steps = 100; ///< unless the user says another number

  /// The rate of step `step`, from 0, of `total`.
  static double rateAt(int64_t step, int64_t total);
  /// Adds the loss of a step. Returns whether the test goes on.
  bool add(double rate, double loss);
  /// The rates that suggest themselves.
  std::string summary() const;

private:
  struct Point {
    double rate, loss; ///< the loss is smoothed
  };
  std::vector<Point> points;
  double average = 0, least = 0;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_MAIN_RATEFINDER_H
