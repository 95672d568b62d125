//===- CheckpointSaver.h - checkpoints beside training ----------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CHECKPOINT_CHECKPOINTSAVER_H
#define DIVISI_RUNTIME_CHECKPOINT_CHECKPOINTSAVER_H

#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/core/Arena.h"
#include "runtime/core/SpareTime.h"

#include <atomic>
#include <thread>

namespace divisi::runtime {

class Communicator;

/// Writes checkpoints. Each rank writes a copy of its shards on a thread beside training; when all have finished, rank
/// 0 makes a checkpoint of the files. All ranks call the same functions in the same order.
class CheckpointSaver {
public:
  /// `ranks` is null for one device. All arguments must outlive the saver.
  CheckpointSaver(const CheckpointFolder &folder, const Manifest &manifest, const Arena &arena,
                  Communicator *ranks = nullptr)
      : folder(folder), manifest(manifest), arena(arena), ranks(ranks) {}
  /// An unfinished checkpoint is completed if there is one device, and discarded otherwise.
  ~CheckpointSaver();
  CheckpointSaver(const CheckpointSaver &) = delete;
  CheckpointSaver &operator=(const CheckpointSaver &) = delete;

  /// Copies the state and begins to write the copy; the arena may then change. No other checkpoint may be in progress.
  /// The thread works in spare time unless the caller `waits`: other programs of the machine could then delay it.
  Status begin(const TrainingPoint &point, bool waits = false);
  /// Whether a checkpoint is in progress: the same on all ranks.
  bool isActive() const { return phase != Phase::Idle; }
  /// Whether this rank's thread is writing; no call waits for it.
  bool isBusy() const { return isActive() && !done.load(std::memory_order_acquire); }
  /// Starts the next phase; no rank may be busy. A failure of any rank is returned on all ranks and ends the
  /// checkpoint.
  Status advance();
  /// Waits until no checkpoint is in progress.
  Status finish();

  /// The step of the last complete checkpoint.
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
  /// Writes the shards of a rank from this rank's copy; it rests in `spare` between pieces.
  Status writeShards(int64_t rank, CheckpointFile &to, SpareTime *spare = nullptr) const;
  void work(const std::function<Status()> &job);
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
  CheckpointFile file; ///< the file that this rank has written; owned by the thread until it is done
  Status written;      ///< likewise
  std::atomic<bool> done = true;
  std::atomic<bool> awaited = false; ///< somebody waits for the end
  std::thread thread;
  std::optional<int64_t> saved_;
};

/// Writes a checkpoint and waits until it is complete.
Status saveCheckpoint(const CheckpointFolder &folder, const Manifest &manifest, const Arena &arena,
                      const TrainingPoint &point, Communicator *ranks = nullptr);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CHECKPOINT_CHECKPOINTSAVER_H
