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

/// Trains one program as the options say.
class Trainer {
public:
  /// `transport` leads to the other ranks, which train the same; null: there are none.
  Trainer(const DivisiProgram &code, Manifest manifest, Options options, Transport *transport = nullptr)
      : code(code), manifest(std::move(manifest)), options(std::move(options)), transport(transport) {}

  /// The exit code: 0, or 128 and the number of the signal that ended training early.
  Result<int> run();
  /// Whether the failure of `run` is that of all ranks.
  bool endsEverywhere() const { return !ranks || common; }

private:
  Result<int> runAll();
  Status prepare();
  Status together(const Status &mine);
  Status agreeToGoOn(const Status &mine);
  bool isFirst() const { return !ranks || ranks->rank() == 0; }
  int threads() const;
  /// All ranks have the same figure; `problem`: what to say of the largest one.
  Status compare(int64_t mine, const std::function<Status(int64_t)> &problem);
  /// All ranks are the same program with the same flags.
  Status checkCommand();
  /// All ranks have as much data and begin at the same step.
  Status checkAlike();
  Status announced(const Status &status);
  Status openData();
  /// How many steps there are, when it is known what a checkpoint says of them.
  Status planSteps();
  /// What computes; null for this processor.
  Result<std::unique_ptr<Accelerator>> openDevice();
  Status createProgram();
  Status setUp();
  Status connectDevices();
  Status startWeights();
  Status openCheckpoints();
  Status resume();
  Status trainSteps();
  Status step();
  /// Reads the next batch of the epoch while an accelerator computes.
  void loadAhead();
  Status report();
  bool mustAgree() const;
  Status drain();
  Status endEpoch();
  Status evaluate();
  /// Begins a checkpoint, after the one before it; whether training `waits` for it.
  Status beginCheckpoint(bool waits = false);
  /// Ends the one that is under way.
  Status finishCheckpoint();
  /// Of `status`, that of a checkpoint: with what there is still.
  Status ofCheckpoint(const Status &status);
  Status saveProfile();
  Status saveResults();
  /// Whether all indices that a function computed were in range; `after` says when, in messages.
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
  bool common = false;                 ///< all ranks have heard of the failure
  int stopped = 0;                     ///< the signal after which all ranks stop
  bool writing = false;                ///< some rank is still writing its part of a checkpoint
  int64_t rows = 0;                    ///< of the batch that is loaded
  /// A batch that was loaded while the one before it was trained on.
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
  std::unique_ptr<Profile> profile; ///< null: nobody asks what calls take
  TrainingPoint point;              ///< where training stands
  int64_t total = 0;                ///< steps to finish
  bool ordered = false;             ///< the samples of this epoch are
  Clock::time_point stepBegan;
  std::deque<Log::Step> unreported; ///< steps whose results are to come
  std::optional<std::string> resumedFrom;
  std::string resumedFlags; ///< that came from the checkpoint
  int64_t resumedAt = 0; ///< steps that were finished then
  std::optional<int64_t> savedStep, evaluatedStep; ///< the first: whose checkpoint was begun
  Tally tally; ///< of the epoch
  Measures last, lastEval;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_MAIN_TRAINER_H
