//===- BackgroundMean.h - a mean beside computation -------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_MAIN_BACKGROUNDMEAN_H
#define DIVISI_RUNTIME_MAIN_BACKGROUNDMEAN_H

#include "runtime/comm/Communicator.h"

#include <thread>

namespace divisi::runtime {

/// The mean of what several ranks have, computed around a ring (reduce_scatter, then all_gather) on a thread of its own, while the ranks
/// compute and communicate otherwise. All members get the same bits.
class BackgroundMean {
public:
  /// `members` are the ranks in the order of the ring; messages have this tag (Communicator::post). The communicator must outlive the object.
  BackgroundMean(Communicator &ranks, std::vector<int> members, int tag) : ranks(ranks), members(std::move(members)), tag(tag) {}
  /// Waits for what was started, as all members do: its messages must not be left under way. If the run has failed, so have the waits.
  ~BackgroundMean() {
    if (thread.joinable())
      thread.join();
  }

  /// Numbers of each type; of each as many on all members.
  struct Numbers {
    std::vector<float> singles;
    std::vector<double> doubles;
  };
  bool isStarted() const { return thread.joinable(); }
  /// Begins with what this rank has.
  Status start(Numbers mine);
  /// Waits for the mean. Nothing is started then.
  Result<Numbers> finish();

private:
  Status run();
  template <typename Number> Status run(std::vector<Number> &values);

  Communicator &ranks;
  const std::vector<int> members;
  const int tag;
  Numbers numbers;
  Status done;
  std::thread thread;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_MAIN_BACKGROUNDMEAN_H
