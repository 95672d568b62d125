//===- Trainer.h - the training loop ----------------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_MAIN_TRAINER_H
#define DIVISI_RUNTIME_MAIN_TRAINER_H

#include "runtime/checkpoint/CheckpointSaver.h"
#include "runtime/main/Log.h"
#include "runtime/main/Options.h"
#include "runtime/main/Profile.h"
#include "runtime/main/Program.h"
#include "runtime/main/Progress.h"
#include "runtime/main/Signals.h"

namespace divisi::runtime {

/// Sums over the batches of an epoch or an evaluation.
class Tally {
public:
  void addLoss(double loss, double weight) {
    lossSum += loss * weight;
    lossWeight += weight;
  }
  void addAccuracy(double correct, double count) {
    correctSum += correct;
    countSum += count;
  }
  Measures measures() const;

private:
  double lossSum = 0, lossWeight = 0, correctSum = 0, countSum = 0;
};

/// Trains one program with its options.
class Trainer {
public:
  /// `transport` connects the ranks, which all train the same; null: there is only one.
  Trainer(const DivisiProgram &code, Manifest manifest, Options options, Transport *transport = nullptr)
      : code(code), manifest(std::move(manifest)), options(std::move(options)), transport(transport) {}

  /// Returns the exit code: 0, or 128 plus the number of the signal that ended training early.
  Result<int> run();
  /// Whether the failure of `run` is known on all ranks.
  bool endsEverywhere() const { return !ranks || common; }

private:
  Result<int> runAll();
  Status prepare();
  Status together(const Status &mine);
  Status agreeToGoOn(const Status &mine);
  bool isFirst() const { return !ranks || ranks->rank() == 0; }
  int threads() const;
  /// Checks that all ranks have the same number; `problem` makes the error from the largest one.
  Status compare(int64_t mine, const std::function<Status(int64_t)> &problem);
  /// Checks that all ranks run the same program with the same flags.
  Status checkCommand();
  /// Checks that all ranks have equally much data and begin at the same step.
  Status checkAlike();
  Status announced(const Status &status);
  Status openData();
  /// Computes the number of steps, after the checkpoint was read.
  Status planSteps();
  /// Opens the computing device; null for this processor.
  Result<std::unique_ptr<Accelerator>> openDevice();
  Status createProgram();
  Status setUp();
  Status connectDevices();
  Status startWeights();
  Status openCheckpoints();
  Status resume();
  Status trainSteps();
  Status step();
  /// Loads the next batch of the epoch while an accelerator computes.
  void loadAhead();
  Status report();
  bool mustAgree() const;
  Status drain();
  Status endEpoch();
  Status evaluate();
  /// Begins a checkpoint, after the previous one is finished; `waits`: training waits for it.
  Status beginCheckpoint(bool waits = false);
  /// Finishes the checkpoint in progress.
  Status finishCheckpoint();
  /// The failure of a checkpoint, with the newest complete one.
  Status ofCheckpoint(const Status &status);
  Status saveProfile();
  Status saveResults();
  /// Checks that all indices that a function computed were in range; `after` is the time for messages.
  Status checkIndices(std::string_view function, const std::string &after) const;
  Status checkLoss(const Log::Step &line) const;
  std::vector<std::pair<std::string, double>> gradNorms() const;
  void announce();

  const DivisiProgram &code;
  Manifest manifest;
  Options options;
  Transport *transport;
  std::unique_ptr<Program> program;
  std::unique_ptr<Communicator> ranks; ///< null: one device
  bool common = false;                 ///< all ranks know the failure
  int stopped = 0;                     ///< the signal after which all ranks stop
  bool writing = false;                ///< some rank is still writing its files of a checkpoint
  int64_t rows = 0;                    ///< of the loaded batch
  /// A batch that was loaded during the previous step.
  struct Ahead {
    int64_t batch = 0, rows = 0;
    Status status;
  };
  std::optional<Ahead> ahead;
  std::optional<BatchSource> data, evalData;
  std::optional<CheckpointFolder> checkpoints;
  std::unique_ptr<CheckpointSaver> saver; ///< null: no checkpoints
  std::optional<Log> log;
  std::optional<Progress> progress;
  std::unique_ptr<Profile> profile; ///< null: no profile is written
  TrainingPoint point;              ///< the progress of training
  int64_t total = 0;                ///< steps to finish
  bool ordered = false;             ///< whether the samples of this epoch are ordered
  Clock::time_point stepBegan;
  std::deque<Log::Step> unreported; ///< steps without results yet
  std::optional<std::string> resumedFrom;
  std::string resumedFlags; ///< from the checkpoint
  int64_t resumedAt = 0; ///< steps that were finished in the checkpoint
  std::optional<int64_t> savedStep, evaluatedStep; ///< savedStep: the step of the last checkpoint that was begun
  Tally tally; ///< of the epoch
  Measures last, lastEval;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_MAIN_TRAINER_H
