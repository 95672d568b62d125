//===- SampleWorkers.h - samples that threads prepare -----------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DATA_IMAGES_SAMPLEWORKERS_H
#define DIVISI_RUNTIME_DATA_IMAGES_SAMPLEWORKERS_H

#include "runtime/core/Status.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

namespace divisi::runtime {

/// Prepares the bytes of samples in threads of its own, in the order in which they are expected, and keeps them until
/// others are expected.
class SampleWorkers {
public:
  /// What prepares a sample, in memory that may have another one's bytes; called by several threads at once.
  using Prepare = std::function<Status(int64_t sample, std::vector<char> &to)>;
  SampleWorkers(int count, Prepare prepare) : count(count), prepare(std::move(prepare)) {}
  ~SampleWorkers();

  /// Forgets all samples, also those that are being prepared, and waits for these.
  void clear();
  /// The samples that will be taken, the next one first; others are forgotten.
  void expect(const std::vector<int64_t> &samples);
  /// The bytes of a sample, which is waited for; valid until other samples are expected.
  Result<const std::vector<char> *> take(int64_t sample);

private:
  struct Entry {
    int64_t sample = 0;
    bool wanted = true, ready = false;
    Status status;
    std::vector<char> bytes;
  };
  void add(int64_t sample);
  /// Keeps the memory of a sample that is forgotten for another one.
  void forget(Entry &entry);
  void work();

  int count;
  Prepare prepare;
  std::mutex mutex;
  std::condition_variable asked, finished;
  std::unordered_map<int64_t, std::shared_ptr<Entry>> entries;
  std::deque<std::shared_ptr<Entry>> queue;
  std::vector<std::vector<char>> spare;
  int busy = 0;
  bool ending = false;
  std::vector<std::thread> threads; ///< begun when the first sample is expected
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_DATA_IMAGES_SAMPLEWORKERS_H
