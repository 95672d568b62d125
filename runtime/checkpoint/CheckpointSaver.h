//===- CheckpointSaver.h - checkpoints beside training ----------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CHECKPOINT_CHECKPOINTSAVER_H
#define DIVISI_RUNTIME_CHECKPOINT_CHECKPOINTSAVER_H

#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/core/Arena.h"

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
                  Communicator *ranks = nullptr);
  /// An unfinished checkpoint is completed if there is one device, and discarded otherwise.
  ~CheckpointSaver();
  CheckpointSaver(const CheckpointSaver &) = delete;
  CheckpointSaver &operator=(const CheckpointSaver &) = delete;

  /// Copies the state and begins to write the copy; the arena may then change. No other checkpoint may be in progress.
  /// The thread works in spare time, unless the caller `waits`; `finish` writes what is left.
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
  /// The file of a rank's shards, which this rank's copy has; null: it has none.
  struct ShardFile;
  std::unique_ptr<ShardFile> shardsOfRank(int64_t rank) const;
  /// Writes this rank's file, or what is left of it.
  Status write();
  /// The same in spare time. The file is left incomplete when somebody waits.
  Status writeInSpareTime();
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
  std::unique_ptr<ShardFile> shards; ///< this rank's file as long as it is incomplete; owned by the thread until it is done
  CheckpointFile file;               ///< the file when it is complete; likewise
  Status written;                    ///< likewise
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
