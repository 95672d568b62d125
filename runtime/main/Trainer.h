//===- Trainer.h - the training loop ----------------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_MAIN_TRAINER_H
#define DIVISI_RUNTIME_MAIN_TRAINER_H

#include "runtime/checkpoint/CheckpointSaver.h"
#include "runtime/main/Delay.h"
#include "runtime/main/Log.h"
#include "runtime/main/Options.h"
#include "runtime/main/Profile.h"
#include "runtime/main/Program.h"
#include "runtime/main/Progress.h"
#include "runtime/main/RateFinder.h"
#include "runtime/main/Signals.h"
#include "runtime/main/StopAgreement.h"

namespace divisi::runtime {

/// Trains one program with its options.
class Trainer {
public:
  /// `transport` connects the ranks, which all train the same; null: there is only one.
  Trainer(const DivisiProgram &code, Manifest manifest, Options options, Transport *transport = nullptr)
      : code(code), manifest(std::move(manifest)), options(std::move(options)), transport(transport) {}
  ~Trainer() {
    if (program)
      program->endReplicas();
  }

  /// Returns the exit code: 0, or 128 plus the number of the signal that ended training early.
  Result<int> run();
  /// After a failure, which is already reported: ends what an accelerator waits for. No other calls may follow.
  void abandon() noexcept {
    if (program)
      program->abandon();
  }
  /// Whether the failure of `run` is known on all ranks.
  bool endsEverywhere() const { return !ranks || common; }

private:
  /// Says that the job goes on without workers that are lost, if it was started so and its program can.
  Status outlive();
  /// Whether this rank has come while the job runs, and does not take part yet: it prepares alone what others have
  /// prepared together.
  bool isLate() const { return transport && transport->isLate(); }
  /// Takes part from now on, with the point and the state of the job.
  Status enter();
  /// Lets such ranks in.
  Status letIn();
  /// Writes who was lost into the log.
  Status noteLosses();
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
  Status checkFiles();
  Status openData();
  void printNote(const std::string &line) const;
  /// Has images prepared as the flags say, or those of the checkpoint.
  Status prepareImages();
  /// Numbers the classes of folders as in the training, that of the checkpoint or of this run.
  Status numberClasses();
  /// Computes the number of steps, after the checkpoint was read.
  Status planSteps();
  /// Opens the computing device; null for this processor.
  Result<std::unique_ptr<Accelerator>> openDevice();
  Status createProgram();
  /// Ranks of a host compute on cores of their own.
  void keepToShare();
  /// Says what this processor lacks: cores for all threads, or units for bf16.
  void noteProcessor();
  Status setUp();
  Status connectDevices();
  Status startWeights();
  Status openCheckpoints();
  Status resume();
  Status trainSteps();
  Status step();
  /// Where shares are dealt to free workers: the steps up to the next evaluation, checkpoint or end of an epoch, or fewer.
  Status freeSteps();
  /// Of asynchronous servers: the updates so far.
  int64_t finishedUpdates() const;
  /// A line of the log for a step of this epoch, whose results come later.
  Log::Step &addLine(int64_t number, double seconds, bool endsEpoch);
  /// What is computed on demand in a step.
  uint32_t wantsOf(int64_t number, bool lastOfEpoch) const;
  double rateOf(int64_t number) const { return finder ? RateFinder::rateAt(number - 1, planned) : options.schedule.at(number - 1, total); }
  /// Whether the results of a step come after it (Program::nextResults).
  bool resultsComeLater() const {
    return program->isAsynchronous() || manifest.dealsShares() || program->meetsSeldom();
  }
  /// The place of the next batch but one.
  Cursor cursorBehind() const {
    return data->endsEpoch(point.cursor.batch) ? Cursor{point.cursor.epoch + 1, 0} : Cursor{point.cursor.epoch, point.cursor.batch + 1};
  }
  /// Loads the batch at a place, in the order of its epoch.
  Status load(const Cursor &place, int64_t &rowCount);
  /// Loads the next batch while an accelerator computes.
  void loadAhead();
  Status report();
  bool mustAgree() const;
  /// Between two meetings of replicas: whether all ranks stop now.
  Status askToStop();
  Status drain();
  void endEpoch();
  /// Whether an evaluation follows a step, after which `epochEnds`.
  bool evaluatesAfter(int64_t step, bool epochEnds) const;
  /// Evaluates, unless that was done after this step; may end training early.
  Status evaluate();
  /// Evaluates all batches of the evaluation data, with the results that are wanted (DivisiWhen), and calls `then` with the rows of
  /// each. `failing` begins the message of a failed evaluation, `where` says of which batch an index is invalid.
  Status evaluateBatches(uint32_t wants, const std::string &failing, const std::function<std::string(int64_t)> &where,
                         const std::function<Status(int64_t)> &then);
  /// Evaluates a batch if workers may be lost: those that are left compute the shares of lost ones, too.
  Status evaluateShares(int64_t batch, int64_t rows, uint32_t wants);
  /// The ranks of workers that took part when the ranks last agreed.
  std::vector<int> workersHere() const;
  /// The sums over all batches of the evaluation data, and on the first rank the metrics that are no sums.
  Status evaluateAll(Tally &sums, std::map<std::string, double> &ofSet);
  /// Writes outputs of the model for all batches of the evaluation data.
  Status predict();
  /// Adds the metrics of one batch, with the numbers of its labels that count and of its rows.
  void addMetrics(Tally &sums, double labels, double rows) const;
  /// The measures of a tally, with the perplexity of a model of sequences whose loss is a cross entropy.
  Measures measuresOf(const Tally &sums) const;
  void stopEarly();
  /// The last line: the loss and where it is from.
  void sayFinal();
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
  /// Adds the step's estimates to the noise scale; null if the program does not measure it.
  std::optional<Log::Step::Noise> addNoise();
  void announce();

  const DivisiProgram &code;
  Manifest manifest;
  Options options;
  Transport *transport;
  std::unique_ptr<Program> program;
  std::unique_ptr<Communicator> ranks; ///< null: one device
  bool common = false;                 ///< all ranks know the failure
  std::optional<StopAgreement> stopAgreement; ///< of replicas that meet seldom
  bool entered = false;                       ///< this rank has come late, and has not finished a step
  bool newcomers = false;                     ///< ranks wait that have come late
  std::vector<bool> missed;                   ///< by rank: those that are known to be lost
  int stopped = 0;                     ///< the signal after which all ranks stop
  bool writing = false;                ///< some rank is still writing its files of a checkpoint
  int64_t rows = 0;                    ///< of the loaded batch
  /// A batch that was loaded during the previous step.
  struct Ahead {
    Cursor place;
    int64_t rows = 0;
    Status status;
  };
  std::optional<Ahead> ahead;
  std::optional<BatchSource> data, evalData;
  std::optional<CheckpointFolder> checkpoints;
  std::unique_ptr<CheckpointSaver> saver; ///< null: no checkpoints
  std::optional<Log> log;
  std::optional<Progress> progress;
  Delay delay; ///< before each computation of a step
  std::optional<RateFinder> finder; ///< null: no learning rate is looked for
  std::unique_ptr<Profile> profile; ///< null: no profile is written
  TrainingPoint point;              ///< the progress of training
  int64_t total = 0, planned = 0;   ///< steps to finish; before training ends early
  std::optional<int64_t> orderedEpoch; ///< that in whose order the samples are
  Clock::time_point stepBegan;
  std::deque<Log::Step> unreported; ///< steps without results yet
  std::optional<std::string> resumedFrom;
  std::string resumedFlags; ///< from the checkpoint
  int64_t resumedAt = 0; ///< steps that were finished in the checkpoint
  std::optional<int64_t> savedStep, evaluatedStep; ///< savedStep: the step of the last checkpoint that was begun
  int64_t sequence = 0; ///< tokens of a sample; 0: the model has no sequences of tokens
  Measures last, lastEval;
  double evalSpeed = 0; ///< samples per second of the last evaluation
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_MAIN_TRAINER_H
