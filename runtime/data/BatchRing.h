//===- BatchRing.h - batches from another process's memory ------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DATA_BATCHRING_H
#define DIVISI_RUNTIME_DATA_BATCHRING_H

#include "runtime/core/Status.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace divisi::runtime {

/// A ring of whole batches in memory that a feeder, another process of this host, shares with all ranks: docs/data.md describes it.
/// A rank takes batches in their order, and the feeder writes over a batch when all ranks have released it. Nothing of the
/// memory is trusted.
class BatchRing {
public:
  /// Where training begins, which the feeder must know to go on from there.
  struct Start {
    int64_t step = 0, epoch = 0, batch = 0;
    std::string position; ///< as of a batch
  };

  /// Maps the memory, for one of `ranks` ranks. `inputBytes` are those of each input in a batch.
  static Result<std::unique_ptr<BatchRing>> open(const std::string &path, const std::vector<int64_t> &inputBytes,
                                                 int64_t ranks, int64_t rank);
  ~BatchRing();
  BatchRing(const BatchRing &) = delete;
  BatchRing &operator=(const BatchRing &) = delete;

  /// Tells the feeder where training begins, once, on the first rank.
  void begin(const Start &start);
  /// While this is true, `next` does not wait.
  void interruptBy(std::function<bool()> asked) { interrupted = std::move(asked); }
  /// Waits for the next batch and makes it the current one. False if there is none: the feeder has closed the ring (`isClosed`),
  /// or the wait was interrupted. Fails when the feeder has ended.
  Result<bool> next();
  /// The current batch was copied.
  void release();

  const std::string &path() const { return where; }
  /// An input of the current batch.
  const char *input(size_t index) const { return slot() + offsets[index]; }
  /// Facts of the current batch, which stay when it is released: whether a pass over the data ends with it, and the data.
  bool endsPass() const { return flags & 1; }
  bool isLast() const { return flags & 2; }
  /// From where the feeder can go on after it; empty if it does not say.
  const std::string &position() const { return positionText; }
  /// The number of batches taken.
  int64_t taken() const { return count; }
  bool isClosed() const { return closed; }
  /// Seconds from `next` to `release`, since the last call.
  double takeSeconds();

private:
  BatchRing() = default;
  Status check(const std::vector<int64_t> &inputBytes, int64_t ranks);
  Status readFacts();
  bool feederLives() const;
  uint64_t load(size_t offset) const;
  void store(size_t offset, uint64_t value);
  char *slot() const;

  std::string where;
  int fd = -1;
  char *memory = nullptr;
  size_t size = 0, slots = 0, slotBytes = 0, headBytes = 0;
  size_t mine = 0; ///< the offset of this rank's counter
  std::vector<size_t> offsets;
  std::function<bool()> interrupted;
  int64_t count = 0;
  uint64_t flags = 0;
  std::string positionText;
  bool closed = false;
  std::chrono::steady_clock::time_point began; ///< the last `next`
  double seconds = 0;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_DATA_BATCHRING_H
