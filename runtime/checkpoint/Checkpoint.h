//===- Checkpoint.h - folders of checkpoints --------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CHECKPOINT_CHECKPOINT_H
#define DIVISI_RUNTIME_CHECKPOINT_CHECKPOINT_H

#include "runtime/checkpoint/CheckpointManifest.h"
#include "runtime/core/Arena.h"

#include <functional>
#include <memory>

namespace divisi::runtime {

class Communicator;

/// Whether a file exists and belongs to the checkpoints of a folder, or to the checkpoint that the folder itself is.
bool isOfCheckpoint(const std::string &file, const std::string &folder);

/// A folder of checkpoints: `step-N/{manifest.json,*.safetensors}`, the last ones and the best, and the files `latest`
/// and `best`, which name them. Each is written under another name and renamed, so that there are only complete
/// checkpoints whenever the program ends.
class CheckpointFolder {
public:
  /// Creates the folder if it does not exist. The last `kept` checkpoints are kept.
  static Result<CheckpointFolder> open(const std::string &path, int64_t kept = 2);

  /// Locks the folder for this program as long as the object exists; fails if another program holds the lock.
  Status lock();
  /// Names of the checkpoints, newest first.
  Result<std::vector<std::string>> list() const;

  /// Creates a hidden folder for the files of a checkpoint.
  Result<std::string> begin(int64_t step) const;
  /// Renames it to a checkpoint; its files must be complete and synced. Removes older checkpoints.
  Status commit(const std::string &temporary, const CheckpointManifest &manifest) const;
  /// Removes a folder.
  static void discard(const std::string &path);

  /// Restores this rank's state from the newest valid checkpoint and returns its name in `name`. All ranks call it
  /// together and use the same checkpoint. Damaged ones are reported to `warn` and skipped. It is an error if a
  /// checkpoint is of another model, if it is of another training program (unless `anyway`), or if all checkpoints are
  /// damaged. Without checkpoints `name` is empty.
  Result<TrainingPoint> restore(const Manifest &manifest, const Arena &arena, std::string &name,
                                const std::function<void(const std::string &)> &warn, bool anyway = false,
                                Communicator *ranks = nullptr) const;

private:
  Status publish(const std::string &temporary, const std::string &name) const;
  void clearUp(int64_t newest) const;
  CheckpointFolder(std::string path, int64_t kept) : folder(std::move(path)), kept(static_cast<size_t>(kept)) {}
  std::string folder;
  size_t kept;
  struct Release {
    void operator()(const int *fd) const;
  };
  std::unique_ptr<int, Release> held; ///< the locked file
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CHECKPOINT_CHECKPOINT_H
