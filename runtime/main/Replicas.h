//===- Replicas.h - replicas that meet by their parameters ------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_MAIN_REPLICAS_H
#define DIVISI_RUNTIME_MAIN_REPLICAS_H

#include "runtime/comm/Communicator.h"
#include "runtime/core/Arena.h"
#include "runtime/main/BackgroundMean.h"

namespace divisi::runtime {

/// Keeps the replicas of a program in step, each of which updates its parameters by its own share of the batch
/// (Manifest::sync). All ranks make the same calls in the same order, while no communication is in progress.
class Replicas {
public:
  /// All three must outlive the object.
  Replicas(const Manifest &manifest, const Arena &arena, Communicator &ranks);

  /// The state of averages before the first step: the parameters are in the arena.
  void begin();
  /// The same of a run that goes on after a step: an average that overlaps with computation is in progress again. All ranks call it.
  Status goOn(int64_t step);
  /// Whether replicas meet after a step; `last`: it is the last one, after which all have the same parameters.
  bool meetAfter(int64_t step, bool last) const { return last || (sync.gossip ? !sync.asynchronous : step % sync.every == 0); }
  /// Makes the parameters of all replicas those that follow from their mean, or (gossip, but for the last step) from the
  /// mean with their neighbours.
  Status meet(int64_t step, bool last);
  /// Whether replicas leave each other alone between two averages.
  bool meetSeldom() const { return !sync.gossip && sync.every > 1; }
  /// The results of steps, for each step one for each of the manifest, for all replicas: means, and of indices the
  /// worst.
  Status combine(std::vector<std::vector<double>> &steps);
  /// The ranks whose parameters are in the last average of all; known to rank 0, if ranks may be lost.
  const std::vector<int> &members() const { return averagedOver; }
  /// What is averaged on this rank.
  const std::vector<const State *> &tensors() const { return averaged; }

private:
  /// One all_reduce over the replicas, in place.
  struct Reduction {
    std::unique_ptr<int64_t[]> memory; ///< a DivisiCollective and its parts
    std::vector<void *> buffers;       ///< operands, then results: the same
    size_t bytes = 0;
    const DivisiCollective *params() const { return reinterpret_cast<const DivisiCollective *>(memory.get()); }
  };
  struct Part {
    void *data = nullptr;
    int64_t elements = 0;
  };
  /// A neighbour in a step: the ranks to which this one sends, and from which it receives.
  struct Neighbour {
    int to, from;
  };
  std::vector<Neighbour> neighboursIn(int64_t step) const;
  Status gossip(int64_t step);
  /// An average that overlaps with computation begins with the parameters of now; they become the last one's mean, with what the
  /// replica has added since it began (as in Overlap Local-SGD, arXiv 2002.09539, but for its momentum).
  Status beginMean();
  Status endMean();
  /// Calls body with each parameter and the numbers of `all` that are its own.
  template <typename Body> void forEachParameter(BackgroundMean::Numbers &all, const Body &body);
  char *stateOf(const State &parameter, std::string_view suffix) const { return places.at(concat(parameter.name, suffix)); }
  /// If ranks may be lost: the mean of those that are left, and of their results, by way of the first one.
  Status averageByFirst();
  Status combineByFirst(std::vector<std::vector<double>> &steps);
  /// Adds a neighbour's tensors, in one piece, to those from `begin` up to `end`.
  void add(size_t begin, size_t end, const char *from);
  std::vector<Reduction> reductionsOf(const std::vector<const State *> &states);
  Reduction reduction(int64_t type, int64_t kind, const std::vector<Part> &parts);
  Status run(const std::vector<Reduction> &all);
  void scale(const State &state, double by) const;
  void update(const State &parameter) const;

  const Manifest &manifest;
  const Sync sync;
  const Arena &arena;
  Communicator &ranks;
  const double share; ///< of a replica: 1 over their number
  int64_t nextId = 0;
  std::vector<const State *> averaged; ///< on this rank
  std::map<std::string, char *> places; ///< in the arena, of what averages add to each parameter
  std::vector<Reduction> sums, results, worst; ///< the last two of `stepsAtOnce` steps
  std::vector<Reduction> others;               ///< the sums of what is no parameter
  std::optional<BackgroundMean> mean;          ///< null: averages do not overlap with computation
  std::vector<int> averagedOver;
  std::vector<char> mine, theirs; ///< parameters of this replica and of its neighbours, in one piece
  size_t stepsAtOnce = 1;
  std::vector<double> numbers, indices; ///< operands of `results` and `worst`
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_MAIN_REPLICAS_H
