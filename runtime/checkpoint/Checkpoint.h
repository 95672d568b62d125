//===- Checkpoint.h - training that can go on -------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CHECKPOINT_CHECKPOINT_H
#define DIVISI_RUNTIME_CHECKPOINT_CHECKPOINT_H

#include "runtime/checkpoint/CheckpointManifest.h"
#include "runtime/core/Arena.h"

#include <functional>
#include <memory>

namespace divisi::runtime {

class Communicator;

/// A folder of checkpoints: `step-N/{manifest.json,*.safetensors}`, the last ones and the best, and `latest` and
/// `best`, which name them. Each is written beside its place and renamed, so that whenever the program ends there are only
/// complete ones.
class CheckpointFolder {
public:
  /// Makes the folder if there is none. `kept` of the last checkpoints stay.
  static Result<CheckpointFolder> open(const std::string &path, int64_t kept = 2);

  /// Keeps other programs from this folder until the object goes away; a failure if one is there.
  Status lock();
  /// Names of the checkpoints, newest first.
  Result<std::vector<std::string>> list() const;

  /// Makes a hidden folder for the files of a checkpoint.
  Result<std::string> begin(int64_t step) const;
  /// Makes it a checkpoint: its files are complete and synced. Removes older ones.
  Status commit(const std::string &temporary, const CheckpointManifest &manifest) const;
  /// Removes a folder.
  static void discard(const std::string &path);

  /// Restores this rank's state from the newest valid checkpoint, the same on all ranks, which call it together, and
  /// returns its name in `name`; damaged ones are told to `warn` and passed over. A checkpoint of another model or
  /// training program is an error (the latter unless it is taken `anyway`). So is a folder whose checkpoints are all
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
  std::unique_ptr<int, Release> held; ///< the file that is locked
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CHECKPOINT_CHECKPOINT_H
