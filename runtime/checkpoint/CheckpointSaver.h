//===- CheckpointSaver.h - checkpoints while training goes on ---*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CHECKPOINT_CHECKPOINTSAVER_H
#define DIVISI_RUNTIME_CHECKPOINT_CHECKPOINTSAVER_H

#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/core/Arena.h"

#include <atomic>
#include <thread>

namespace divisi::runtime {

class Communicator;

/// Writes checkpoints: each rank its shards, from a copy, on a thread beside training; when all have written theirs,
/// rank 0 makes a checkpoint of them. All ranks call the same functions in the same order.
class CheckpointSaver {
public:
  /// `ranks` is null for one device. All outlive the saver.
  CheckpointSaver(const CheckpointFolder &folder, const Manifest &manifest, const Arena &arena,
                  Communicator *ranks = nullptr)
      : folder(folder), manifest(manifest), arena(arena), ranks(ranks) {}
  /// A checkpoint that is under way is finished if there is one device, and lost otherwise.
  ~CheckpointSaver();
  CheckpointSaver(const CheckpointSaver &) = delete;
  CheckpointSaver &operator=(const CheckpointSaver &) = delete;

  /// Copies the state and begins to write; the arena may change from then on. Only while none is under way. The thread
  /// has a low priority unless the caller `waits`: other programs of the machine would keep it from its work then.
  Status begin(const TrainingPoint &point, bool waits = false);
  /// Whether one is under way: the same on all ranks.
  bool isActive() const { return phase != Phase::Idle; }
  /// Whether this rank's thread works: no call waits for it.
  bool isBusy() const { return isActive() && !done.load(std::memory_order_acquire); }
  /// When no rank is busy: what comes next. All hear of the failure of any rank, which ends this checkpoint.
  Status advance();
  /// Waits until none is under way.
  Status finish();

  /// The step of the last checkpoint that is complete.
  std::optional<int64_t> saved() const { return saved_; }

private:
  enum class Phase { Idle, Writing, Publishing };
  struct Copied {
    std::string name;
    DataType dtype;
    Shape shape;
    size_t offset, bytes; ///< in the copy
  };
  bool isFirst() const;
  Status agree(const Status &mine) const;
  void copyState();
  void work(const std::function<Status()> &job, bool yields);
  Status end(const Status &status);

  const CheckpointFolder &folder;
  const Manifest &manifest;
  const Arena &arena;
  Communicator *ranks;
  Phase phase = Phase::Idle;
  TrainingPoint point;
  std::string temporary; ///< the hidden folder
  std::vector<char> copy;
  std::vector<Copied> tensors;
  CheckpointFile file; ///< what this rank has written; the thread's until it is done
  Status written;      ///< likewise
  std::atomic<bool> done = true;
  std::thread thread;
  std::optional<int64_t> saved_;
};

/// Writes a checkpoint and waits for it.
Status saveCheckpoint(const CheckpointFolder &folder, const Manifest &manifest, const Arena &arena,
                      const TrainingPoint &point, Communicator *ranks = nullptr);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CHECKPOINT_CHECKPOINTSAVER_H
