//===- Checkpoint.h - training that can go on -------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CHECKPOINT_CHECKPOINT_H
#define DIVISI_RUNTIME_CHECKPOINT_CHECKPOINT_H

#include "runtime/checkpoint/GlobalState.h"
#include "runtime/data/BatchSource.h"

#include <functional>

namespace divisi::runtime {

/// What a checkpoint holds beside the tensors.
struct TrainingPoint {
  int64_t step = 0; ///< finished steps
  Cursor cursor;
  uint64_t seed = 0;
  bool shuffle = true;
  int64_t samples = 0; ///< of the training data
};

/// A folder of checkpoints: `step-N/{state.safetensors,manifest.json}`, the last two, and `latest`, which names the
/// newest. Each is written beside its place and renamed, so that whenever the program ends there are only complete
/// ones.
class CheckpointFolder {
public:
  /// Makes the folder if there is none.
  static Result<CheckpointFolder> open(const std::string &path);

  /// Names of the checkpoints, newest first.
  std::vector<std::string> list() const;
  /// Writes one and removes older ones. All ranks call it, and all hear of a failure.
  Status save(GlobalState &state, const TrainingPoint &point) const;
  Status save(const Manifest &manifest, const Arena &arena, const TrainingPoint &point) const {
    GlobalState state(manifest, arena);
    return save(state, point);
  }
  /// Restores the newest valid checkpoint and returns its name in `name`; damaged ones are told to `warn` and passed
  /// over. A checkpoint of another model is an error. So is a folder whose checkpoints are all damaged.
  Result<TrainingPoint> restore(const Manifest &manifest, const Arena &arena, std::string &name,
                                const std::function<void(const std::string &)> &warn) const;

private:
  Status publish(const std::string &temporary, const std::string &name) const;
  void clearUp() const;
  explicit CheckpointFolder(std::string path) : folder(std::move(path)) {}
  std::string folder;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CHECKPOINT_CHECKPOINT_H
