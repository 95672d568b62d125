//===- Program.h - a compiled model in its memory ---------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_MAIN_PROGRAM_H
#define DIVISI_RUNTIME_MAIN_PROGRAM_H

#include "runtime/comm/Staging.h"
#include "runtime/core/Arena.h"
#include "runtime/core/Context.h"
#include "runtime/core/Teamwork.h"
#include "runtime/data/BatchSource.h"
#include "runtime/main/Minibatches.h"
#include "runtime/main/Replicas.h"
#include "runtime/main/AsynchronousGossip.h"
#include "runtime/main/ServedStep.h"

namespace divisi::runtime {

/// Generated code with its manifest, arena and context.
class Program {
public:
  /// `accelerator` computes; null: this processor does. `ranks` (null for one device) runs its collectives; it must be
  /// destroyed before the program, whose memory it uses.
  static Result<std::unique_ptr<Program>> create(const DivisiProgram &code, Manifest manifest, int threads,
                                                 Communicator *ranks = nullptr,
                                                 std::unique_ptr<Accelerator> accelerator = nullptr);

  /// All ranks call this together, once. From then on, accelerators exchange data without the hosts' memory if they
  /// can. Returns the obstacle if there is an accelerator that cannot; else empty. A rank that has not come after
  /// `patience` seconds is an error.
  Result<std::string> connectDevices(double patience);
  /// All ranks call this together, once, after that, and before `pushStates`: an accelerator does what waits for other
  /// work when it is first done.
  Status rehearse();

  /// The run has failed: aborts what an accelerator waits for from other ranks, and leaves the accelerator to the end
  /// of the process, since it might wait for ever when it is released. No other calls may follow.
  void abandon() noexcept {
    if (accelerator)
      accelerator.release()->abandon();
  }

  const Manifest &manifest() const { return description; }
  const Arena &arena() const { return memory; }
  std::string_view skeleton() const { return {code.skeleton, code.skeleton_bytes}; }
  int threads() const { return context.threads; }

  /// Loads a batch (BatchSource::load) for the next step or evaluation. An accelerator gets it beside what it computes.
  Status load(BatchSource &from, int64_t index, int64_t &rows);
  /// One step of training on the batch that was loaded last; `wants` are bits of DivisiWhen. In an asynchronous program the
  /// batch enters the pipeline, and its results are available some steps later. `meanwhile` is called while an
  /// accelerator computes a synchronous step: it may load the next batch.
  Status train(double learningRate, int64_t rows, uint32_t wants, const std::function<void()> &meanwhile = {});
  /// The pipeline of an asynchronous program must be empty. `wants` as above.
  Status evaluate(int64_t rows, uint32_t wants = 0);
  /// If workers may be lost: one of them computes a share of a batch, together with those that are not `absent` (by
  /// rank).
  Status evaluateShare(int64_t share, int64_t rows, uint32_t wants, const std::vector<bool> &absent);
  const std::vector<double> &numbersOfAll() const { return numbers; }
  /// Makes the results those that rank 0 has put together of several `evaluateShare`. All ranks call it together.
  Status setEvaluation(std::vector<double> values, uint32_t wants);
  /// What the last `evaluate` that wanted predictions computed, for the whole batch. All ranks call it together; the
  /// first one gets the bytes.
  Result<std::string> prediction(const Prediction &of);

  bool isAsynchronous() const { return description.asynchronous; }
  /// For an asynchronous program: drains the pipeline. All ranks call it after the same step.
  Status drain();
  /// For an asynchronous program, or one that meets seldom: the ranks exchange the results of finished batches, after
  /// the same step.
  Status exchangeResults();
  /// Makes `result` return the results of the oldest exchanged batch; false if there are no more.
  bool nextResults();

  /// A result of the last call of this function, equal on all ranks; null if the model does not have it, or if it was
  /// not computed. `output` must belong to this program's manifest.
  std::optional<double> result(const Output *output) const;
  std::optional<double> result(std::string_view function, std::string_view kind) const {
    return result(description.result(function, kind));
  }

  /// Records the times of calls of the next runs; null: does not.
  void setRecorder(Recorder *recorder);
  /// Names the ranges of the next runs for the tool of `nvtx::attach`.
  void nameRanges();

  /// Copies the state in the arena to the accelerator, or back; does nothing without one.
  Status pushStates();
  Status pullStates();

  /// For replicas that update their parameters apart (Manifest::sync): the parameters before the first step are in the
  /// arena, or those after a step after which a run goes on.
  void beginReplicas() {
    if (replicas)
      replicas->begin();
  }
  Status resumeReplicas(int64_t step) { return replicas ? replicas->goOn(step) : Status(); }
  /// Waits for what replicas have begun together; they do not meet any more.
  void endReplicas() { replicas.reset(); }
  /// Whether such replicas leave each other alone between two averages: results then come with `nextResults`, after the
  /// next one.
  bool meetsSeldom() const { return replicas && replicas->meetSeldom(); }
  /// Whether they meet after a step. `last`: after it there is none.
  bool meetsAfter(int64_t step, bool last) const { return replicas && replicas->meetAfter(step, last); }
  /// The same: the replicas meet, if they do after this step. All ranks call it together.
  Status meetReplicas(int64_t step, bool last);

  /// With dedicated servers, or asynchronous gossip (Manifest::dealsShares): runs batches `begin` up to `end` of a training, or fewer. All ranks call it together.
  /// `load` puts a worker's share of a batch into the arena, `rate` is the learning rate of a batch, `wants` has bits of DivisiWhen;
  /// `isEnough` is asked after each batch whether the run should end with it. The results of the batches are then those of
  /// `nextResults`.
  struct Feed {
    std::function<Status(const Share &)> load;
    std::function<double(int64_t batch)> rate;
    std::function<uint32_t(int64_t batch)> wants;
    std::function<bool()> isEnough, isAskedToStop;
    int64_t updatesBefore = 0; ///< see TrainingPoint
  };
  Result<FreeRun> trainFreely(int64_t begin, int64_t end, const Feed &feed);
  /// If workers may be lost: the ranks whose parameters are in the last average of all (rank 0).
  const std::vector<int> &averagedOver() const { return replicas->members(); }
  /// What replicas have done in it (rank 0); null if they do not gossip.
  const std::vector<std::vector<AsynchronousGossip::Event>> *gossipEvents() const { return gossip ? &gossip->eventsOfAll() : nullptr; }

  /// `evaluate` takes the moving averages of parameters for them.
  void useAverages() { setInteger(description.scalar("averaged"), 1); }
  void setStep(int64_t step) { setInteger(description.stateOf(Role::Step), step); }
  void setSeed(uint64_t seed) { setInteger(description.stateOf(Role::Seed), static_cast<int64_t>(seed)); }
  /// The number of finished steps in the program's state; null if it has none.
  std::optional<int64_t> step() const;

private:
  Program(const DivisiProgram &code, Manifest manifest, Arena arena, int threads, Communicator *ranks)
      : code(code), description(std::move(manifest)), memory(std::move(arena)), ranks(ranks), context(threads),
        numbers(description.results.size()), minibatches(newMinibatches()) {}
  /// Addresses of the computing device.
  char *base() const { return accelerator ? accelerator->arena() : memory.data(); }
  const char *constants() const { return accelerator ? accelerator->constants() : code.constants; }
  void setInteger(const Tensor *tensor, int64_t value);
  Status run(const char *function, int64_t rows, uint32_t wants, const std::function<void()> &meanwhile);
  /// Adds the turns (as in Communicator::setTurn) in which this rank may run a row of a function.
  void addTurns(std::vector<int64_t> &turns, const Row &row, std::string_view function) const;
  /// Runs a row's task; its messages are those of the microbatch, if replicas take these in turn.
  void runTask(const Row &row, int64_t slot, int64_t microbatch);
  /// Calls body with the accelerator, if there is one; an exception becomes the status.
  Status withAccelerator(const std::function<void(Accelerator &)> &body);
  void push(Accelerator &to, const Tensor &tensor) const;
  void pull(Accelerator &from, const Tensor &tensor) const;
  Status pushInputs();
  Status pullResults(const std::string &function);
  /// Runs what the table has for the next minibatch, or in a pipeline that drains.
  Status runMinibatch();
  Minibatches newMinibatches() const {
    auto [own, replicas] = description.turnOf(description.rank);
    return {description.lagOf(description.stageOf(description.rank)), description.longestLag(), own, replicas,
            description.minibatches};
  }
  void setLearningRate(double rate);
  bool isWanted(const Output &output) const { return output.when == 0 || (output.when & wanted) != 0; }
  Status collectResults(const std::string &function);
  /// Of replicas that meet seldom: makes the results of the steps since the last call those of all replicas.
  Status combineResults();
  /// Sends the results of training of a stage, for each row one for each of the manifest, to all ranks.
  Status tellRows(int64_t stage, std::vector<std::vector<double>> &rows);
  /// What this rank has computed: a number for each result, 0 for those of other functions and stages.
  std::vector<double> ownResults(const std::string &function) const;
  /// Runs rows of a table one after the other, until one fails.
  void runRows(const Table &table, const std::function<bool(const Row &)> &chosen);
  /// Runs this rank's rows of `train` for a share of a batch, or for an update of a server.
  Status runShare();
  /// The server that runs a row; null: workers do.
  std::optional<int64_t> serverOf(const Row &row) const;
  /// Whether this rank runs a row of its table: servers and workers run different ones.
  bool isOwn(const Row &row) const;
  DeviceCopies deviceCopies();
  /// Whether a result says that training must end: a loss that is no number, an index out of its range.
  bool isUnsound(const std::vector<double> &results) const;
  /// Sends `values` of a stage (one for each result) to all ranks.
  Status tell(int64_t stage, std::vector<double> &values, const std::string &function);
  /// Sends `values` of a rank to all ranks.
  Status tellFrom(int rank, std::vector<double> &values, const std::string &function);
  bool isOf(const Output &output, const std::string &function, int64_t stage) const {
    return output.function == function && std::max<int64_t>(output.stage, 0) == stage;
  }

  const DivisiProgram &code;
  Manifest description;
  Arena memory;
  std::unique_ptr<Accelerator> accelerator; ///< null: this processor computes
  Communicator *ranks;                      ///< null: one device
  std::unique_ptr<Staging> staging;         ///< for an accelerator, if there are several ranks
  std::unique_ptr<Replicas> replicas;       ///< null: all have the same parameters
  std::unique_ptr<ServedStep> served;       ///< null: there are no dedicated servers
  std::unique_ptr<AsynchronousGossip> gossip; ///< null: replicas do not gossip asynchronously
  DivisiContext context;
  std::map<int64_t, TaskTeamwork> teams; ///< by task, of a program without an accelerator
  std::unique_ptr<Ranges> ranges; ///< null: no tool
  std::vector<double> numbers;    ///< by result
  uint32_t wanted = 0;            ///< what was computed on demand
  Minibatches minibatches;
  int64_t told = 0; ///< number of minibatches whose results were exchanged since the pipeline was empty
  std::deque<std::vector<double>> mine, ours; ///< results of steps: this rank's (or this replica's), and exchanged ones
  std::vector<double> updateResults;          ///< what the newest update of an asynchronous program has left
  std::deque<uint32_t> wants;                 ///< of minibatches whose results were not returned yet
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_MAIN_PROGRAM_H
