//===- Log.h - one line of JSON for each step -------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_MAIN_LOG_H
#define DIVISI_RUNTIME_MAIN_LOG_H

#include "runtime/comm/Communicator.h"

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace divisi::runtime {

/// The results of a step or an evaluation.
struct Measures {
  double loss = 0;
  std::optional<double> accuracy;
};

/// A log that is written line by line, so that it can be followed while the program runs.
class Log {
public:
  /// Writes nothing if `path` is empty. A training of `total` steps that is resumed after step `resumedStep` keeps the
  /// lines up to there, except the evaluation after the last step, which is repeated.
  static Result<Log> open(const std::string &path, std::optional<int64_t> resumedStep, int64_t total);

  struct Step {
    int64_t step, epoch; ///< both count from 1
    Measures measures;
    double learningRate, samplesPerSecond, seconds; ///< `seconds`: of the whole step, with loading its data
    std::vector<std::pair<std::string, double>> gradNorms;
    std::optional<CommUsage> comm; ///< in a program for several ranks
  };
  Status step(const Step &step);
  Status evaluation(int64_t step, int64_t epoch, const Measures &measures);

private:
  Status write(const std::string &line);

  struct Close {
    void operator()(std::FILE *file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file;
  std::string path;
};

/// A number in the log: nine digits, or null if JSON has no such number.
std::string formatNumber(double value);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_MAIN_LOG_H
