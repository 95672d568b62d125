//===- Log.h - the numbers of each step and evaluation ----------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_MAIN_LOG_H
#define DIVISI_RUNTIME_MAIN_LOG_H

#include "runtime/comm/Communicator.h"
#include "runtime/core/NoiseScale.h"
#include "runtime/core/Tally.h"
#include "runtime/main/AsynchronousGossip.h"
#include "runtime/main/EventFile.h"

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace divisi::runtime {

/// A log that is written line by line, so that it can be followed while the program runs, and the same numbers for
/// TensorBoard. docs/log.md describes the fields.
class Log {
public:
  /// The version of the fields, in the first line.
  static constexpr int schema = 1;
  /// Writes no lines if `path` is empty, and no events if `board`, a folder, is. A training of `total` steps that is
  /// resumed after step `resumedStep` keeps the lines up to there, except the evaluation after the last step, which is
  /// repeated.
  static Result<Log> open(const std::string &path, const std::string &board, std::optional<int64_t> resumedStep,
                          int64_t total);

  struct Step {
    int64_t step, epoch; ///< both count from 1
    Measures measures;
    double learningRate, samplesPerSecond, seconds; ///< `seconds`: of the whole step, with loading its data
    std::vector<std::pair<std::string, double>> gradNorms;
    /// Of a program that measures it: what it is estimated from, the step's estimates, and the smoothed scale.
    struct Noise {
      double big, small;
      NoiseEstimate estimate;
      double scale;
    };
    std::optional<Noise> noise;
    std::optional<CommUsage> comm;         ///< in a program for several ranks
    std::optional<double> tokensPerSecond; ///< of a model of sequences
    std::optional<Measures> epochMeasures; ///< the means of the epoch, in its last step
    bool endsEpoch = false;
    std::optional<double> feedSeconds; ///< seconds to get the batch, if another process feeds
  };
  struct Evaluation {
    int64_t step, epoch;
    Measures measures;
    EvaluationHistory history; ///< with this evaluation
    double samplesPerSecond;
    std::optional<double> tokensPerSecond;
  };
  /// An update by an asynchronous parameter server: its number and that of the last update that its worker had seen, both from 1
  /// (0: none), the batch's step, the share of the batch, and the worker.
  struct Update {
    int64_t number, pulled, step, share, worker;
  };
  Status step(const Step &step);
  Status update(const Update &update);
  /// What a replica has done in asynchronous gossip.
  Status gossip(int64_t replica, const AsynchronousGossip::Event &event);
  /// The workers whose parameters are in an average after a step, where some may be lost.
  Status average(const std::vector<int> &workers, int64_t step);
  /// A worker was lost, or has joined in place of one, after a step.
  Status change(bool joined, int64_t worker, int64_t step);
  Status evaluation(const Evaluation &evaluation);

private:
  /// A number of a line and of an event.
  struct Field {
    std::string name;
    double value;
    bool isWhole = false;
  };
  Status openLines(const std::string &path, std::optional<int64_t> resumedStep, int64_t total);
  Status write(EventFile *events, int64_t step, const std::string &start, const std::vector<Field> &fields,
               const std::string &end = "");

  struct Close {
    void operator()(std::FILE *file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file;
  std::optional<EventFile> training, evaluations; ///< in folders of their own: curves of one name have one chart
  bool begun = false;                             ///< has a first line
  std::string path;
};

/// A number in the log: nine digits, or null if JSON has no such number.
std::string formatNumber(double value);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_MAIN_LOG_H
