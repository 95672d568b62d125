//===- Options.h - flags of a generated program -----------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_MAIN_OPTIONS_H
#define DIVISI_RUNTIME_MAIN_OPTIONS_H

#include "runtime/data/BatchSource.h"
#include "runtime/main/Schedule.h"

#include <map>

namespace divisi::runtime {

struct Options {
  BatchSource::Files data, eval;
  std::string feed; ///< a ring of batches (BatchRing) instead of `data`
  std::optional<DataType> tokenType; ///< of token files without a header; null: the usual one
  ImageOptions images;
  std::optional<int64_t> epochs, steps;
  int64_t evalEvery = 0; ///< 0: at the end of each epoch
  int64_t earlyStop = 0; ///< evaluations without improvement after which training ends; 0: never
  bool keepBest = false, evalOnly = false;
  bool findRate = false; ///< the learning rate range test, after which nothing is saved
  bool ema = false; ///< the moving averages of the weights are evaluated and saved
  std::map<std::string, std::string> predict; ///< files by output; not empty: nothing else is done, on `eval`
  bool shuffle = true;
  uint64_t seed = 0;
  bool seedGiven = false;
  Schedule schedule;
  int64_t baseBatch = 0;           ///< the batch for which --lr is; 0: the program's
  std::string lrScale = "linear"; ///< linear or sqrt: how the rate grows with the batch
  std::string log, tensorboard, profile, trace;
  bool logGradNorms = false;
  std::string save, saveWeights;
  std::string weights;
  std::optional<uint64_t> init;
  std::string checkpoint;
  int64_t every = 0; ///< 0: at the end of each epoch
  int64_t keepCheckpoints = 2;
  bool resume = false, resumeAnyway = false;
  std::string device = "auto"; ///< auto, cpu or cuda
  bool noNccl = false;         ///< GPUs exchange data through the hosts' memory
  int threads = 0;             ///< 0: from the environment
  double timeout = 300;        ///< seconds for which ranks wait for one that does not come or is silent
  bool quiet = false;
  bool info = false, describe = false;

  /// Flags that belong to the training as opposed to one run of it, as texts by name. A checkpoint keeps them, and
  /// `resume` uses those that the command line does not contain.
  std::map<std::string, std::string> training() const;
  std::vector<std::string> words; ///< the command line
  /// Whether the command line says how images are prepared, not a checkpoint alone.
  bool givesImageFlags() const;

  /// The flags that must be equal on all ranks, as text: numbers, and whether each file is requested.
  std::string common() const;
};

/// Parses the command line; the manifest has the defaults. Returns null if help was requested and printed (unless
/// `print` is false).
Result<std::optional<Options>> parseOptions(const Manifest &manifest, int argc, const char *const *argv,
                                            bool print = true);
/// The flags of every program, such as "--data".
std::vector<std::string> programFlags();
/// The same options, with the flags that a checkpoint kept (Options::training) unless the command line contains them.
/// `taken` is set to the flags that differ by this, as arguments with a space before each.
Result<Options> withKept(const Manifest &manifest, const Options &options,
                         const std::map<std::string, std::string> &kept, std::string &taken);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_MAIN_OPTIONS_H
