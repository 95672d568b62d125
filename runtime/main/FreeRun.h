//===- FreeRun.h - batches whose workers do not wait ------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_MAIN_FREERUN_H
#define DIVISI_RUNTIME_MAIN_FREERUN_H

#include "runtime/comm/Communicator.h"
#include "runtime/core/Arena.h"
#include "runtime/main/ShareDealer.h"

namespace divisi::runtime {

/// What a run of batches has left whose shares are dealt to workers: the same on all ranks.
struct FreeRun {
  /// An update by the gradient of a worker's share, which the worker has computed from the parameters after `pulled` updates of
  /// this run. Its staleness is the number of updates between them and it.
  struct Push {
    int64_t worker = 0, batch = 0, share = 0, pulled = 0;
  };
  int64_t batches = 0;         ///< that are finished
  std::vector<double> results; ///< of each batch, in order, one for each result of the manifest
  std::vector<Push> pushes;    ///< in the order of updates; of asynchronous servers alone

  /// Sends rank `from`'s to all ranks.
  Status share(Communicator &ranks, int from);
};

/// Copies a part of the arena to the memory of the device that computes, or back; does nothing if that is this processor.
struct DeviceCopies {
  using Copy = std::function<Status(int64_t offset, int64_t bytes)>;
  Copy to, from;
};

/// What ranks compute in such a run.
struct FreeWork {
  /// Of a worker: loads its share of a batch and computes.
  std::function<Status(const Share &)> compute;
  /// Of a server: updates its part of the state by what was pushed, for a batch.
  std::function<Status(int64_t batch)> update;
  /// The results of what was computed last, one for each of the manifest.
  std::function<std::vector<double>()> results;
  /// Whether no further batch should begin, asked after each one.
  std::function<bool(const std::vector<double> &results)> isEnough;
  /// Whether this rank was asked to stop: no further batch begins then.
  std::function<bool()> isAskedToStop;
};

/// The results of batches from those of their shares: means, and of indices the worst. Batches are reported in order, although a
/// later one may be complete before.
class BatchResults {
public:
  BatchResults(const Manifest &manifest, int64_t begin, int64_t shares, const FreeWork &work)
      : manifest(manifest), begin(begin), shares(shares), work(work) {}
  /// Adds those of a share. Returns whether no further batch should begin.
  bool add(int64_t batch, const std::vector<double> &results);
  FreeRun take();

private:
  const Manifest &manifest;
  const int64_t begin, shares;
  const FreeWork &work;
  std::map<int64_t, std::pair<int64_t, std::vector<double>>> open; ///< batches: shares so far, and their sums
  FreeRun run;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_MAIN_FREERUN_H
