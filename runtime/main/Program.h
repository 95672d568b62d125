//===- Program.h - a compiled model in its memory ---------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_MAIN_PROGRAM_H
#define DIVISI_RUNTIME_MAIN_PROGRAM_H

#include "runtime/comm/Staging.h"
#include "runtime/core/Arena.h"
#include "runtime/core/Context.h"
#include "runtime/main/Minibatches.h"

namespace divisi::runtime {

/// Generated code with its manifest, arena and context.
class Program {
public:
  /// `accelerator` computes; null for this processor. `ranks` (null for one device) runs its collectives. It goes away
  /// before the program does, whose memory it uses.
  static Result<std::unique_ptr<Program>> create(const DivisiProgram &code, Manifest manifest, int threads,
                                                 Communicator *ranks = nullptr,
                                                 std::unique_ptr<Accelerator> accelerator = nullptr);

  /// All ranks call this together, once: accelerators that can exchange data without the hosts' memory do so from then
  /// on. What keeps them from it, if there is an accelerator; empty otherwise.
  Result<std::string> connectDevices();

  /// The run has failed: what an accelerator waits for from other ranks is given up. Only the end follows.
  void abandon() noexcept {
    if (accelerator)
      accelerator->abandon();
  }

  const Manifest &manifest() const { return description; }
  const Arena &arena() const { return memory; }
  std::string_view skeleton() const { return {code.skeleton, code.skeleton_bytes}; }
  int threads() const { return context.threads; }

  /// One step of training on the batch in the arena; `wants` are bits of DivisiWhen. In an asynchronous program the
  /// batch enters the pipeline, and its results are there some steps later.
  /// `meanwhile` is called while an accelerator computes a synchronous step: inputs in the arena may be changed by it.
  Status train(double learningRate, int64_t rows, uint32_t wants, const std::function<void()> &meanwhile = {});
  /// Not while the pipeline of an asynchronous program has batches.
  Status evaluate(int64_t rows);

  bool isAsynchronous() const { return description.asynchronous; }
  /// Of an asynchronous program: finishes all batches. All ranks do so after the same step.
  Status drain();
  /// Of an asynchronous program: the ranks tell each other the results of finished batches, after the same step.
  Status exchangeResults();
  /// Makes the oldest batch's results that were exchanged those of `result`; false if there are no more.
  bool nextResults();

  /// A result of the last call of this function, equal on all ranks; nothing if the model has none, or it was not
  /// wanted. `output` is one of this program's manifest.
  std::optional<double> result(const Output *output) const;
  std::optional<double> result(std::string_view function, std::string_view kind) const {
    return result(description.result(function, kind));
  }

  /// Times the calls of the next runs; null for none.
  void setRecorder(Recorder *recorder);
  /// Names what the next runs do for the tool of `nvtx::attach`.
  void nameRanges();

  /// What the arena has of states goes to the accelerator, or comes from it; nothing to do without one.
  Status pushStates();
  Status pullStates();

  void setSeed(uint64_t seed) { setInteger(description.stateOf(Role::Seed), static_cast<int64_t>(seed)); }
  /// Finished steps as the program counts them; nothing if it does not.
  std::optional<int64_t> step() const;

private:
  Program(const DivisiProgram &code, Manifest manifest, Arena arena, int threads, Communicator *ranks)
      : code(code), description(std::move(manifest)), memory(std::move(arena)), ranks(ranks), context(threads),
        numbers(description.results.size()), minibatches(newMinibatches()) {}
  /// Addresses of the device that computes.
  char *base() const { return accelerator ? accelerator->arena() : memory.data(); }
  const char *constants() const { return accelerator ? accelerator->constants() : code.constants; }
  void setInteger(const Tensor *tensor, int64_t value);
  Status run(const char *function, int64_t rows, uint32_t wants, const std::function<void()> &meanwhile);
  void runTask(const Row &row, int64_t slot);
  /// Calls body for an accelerator; what it throws is the status.
  Status withAccelerator(const std::function<void(Accelerator &)> &body);
  void push(Accelerator &to, const Tensor &tensor) const;
  void pull(Accelerator &from, const Tensor &tensor) const;
  Status pushInputs();
  Status pullResults(const std::string &function);
  /// Whether results come to where inputs lie.
  bool resultsOverlapInputs() const;
  Status runMinibatches();
  Minibatches newMinibatches() const {
    return {description.lagOf(description.stageOf(description.rank)), description.longestLag()};
  }
  void setLearningRate(double rate);
  bool isWanted(const Output &output) const { return output.when == 0 || (output.when & wanted) != 0; }
  Status collectResults(const std::string &function);
  /// Makes `values` of a stage, so many by result, known on all ranks.
  Status tell(int64_t stage, std::vector<double> &values, const std::string &function);
  bool isOf(const Output &output, const std::string &function, int64_t stage) const {
    return output.function == function && std::max<int64_t>(output.stage, 0) == stage;
  }

  const DivisiProgram &code;
  Manifest description;
  Arena memory;
  std::unique_ptr<Accelerator> accelerator; ///< null: this processor computes
  Communicator *ranks;                      ///< null: one device
  std::unique_ptr<Staging> staging;         ///< of an accelerator among several ranks
  DivisiContext context;
  std::unique_ptr<Ranges> ranges; ///< null: no tool
  std::vector<double> numbers;    ///< by result
  uint32_t wanted = 0;            ///< when they were computed
  Minibatches minibatches;
  int64_t told = 0; ///< minibatches, since the pipeline was empty, whose results were exchanged
  std::deque<std::vector<double>> mine, ours; ///< results of minibatches: of this rank, and exchanged
  std::deque<uint32_t> wants;                 ///< of minibatches whose results are not shown yet
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_MAIN_PROGRAM_H
