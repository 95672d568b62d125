//===- CheckpointManifest.h - what a checkpoint says of itself --*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CHECKPOINT_CHECKPOINTMANIFEST_H
#define DIVISI_RUNTIME_CHECKPOINT_CHECKPOINTMANIFEST_H

#include "runtime/core/Manifest.h"
#include "runtime/data/BatchSource.h"

namespace divisi::runtime {

/// Where a training stands, beside its tensors.
struct TrainingPoint {
  int64_t step = 0; ///< finished steps
  Cursor cursor;
  uint64_t seed = 0;
  bool shuffle = true;
  int64_t samples = 0; ///< of the training data
  /// The program's flags that belong to the training, as text by name.
  std::map<std::string, std::string> flags = {};
  std::optional<double> evalLoss = {}; ///< where the training was evaluated after this step
};

/// A file of a checkpoint: what one rank wrote.
struct CheckpointFile {
  std::string name;
  int64_t bytes = 0;
  std::string hashes; ///< of its contents (ChunkHasher)
};

/// A tensor of a checkpoint, whole or in pieces.
struct CheckpointTensor {
  std::string name, role;
  DataType dtype = DataType::F32;
  Shape shape;  ///< in files and for users
  Shape pieced; ///< another view of the same elements, which the pieces are of
  struct Piece {
    size_t file = 0; ///< that has it under the tensor's name
    Shape start, shape;
  };
  std::vector<Piece> pieces;
};

/// `manifest.json` of a checkpoint. It has a hash of itself: what was edited or damaged is not believed.
struct CheckpointManifest {
  TrainingPoint point;
  std::string model;                          ///< name
  std::string state;                          ///< Manifest::identity
  std::map<std::string, std::string> program; ///< Manifest::program
  int64_t batchSize = 0;
  std::vector<CheckpointFile> files;
  std::vector<CheckpointTensor> tensors;

  /// What a checkpoint of this program says, whose ranks have written `files` (by rank; no name: nothing).
  static CheckpointManifest of(const Manifest &program, TrainingPoint point, std::vector<CheckpointFile> files);

  Status write(const std::string &path) const;
  /// Whether a checkpoint cannot be used because it is damaged, or because it is of something else.
  enum class Fault { Damaged, Foreign };
  /// On failure `fault` says which.
  static Result<CheckpointManifest> read(const std::string &path, Fault &fault);

  /// Why the program cannot go on from this checkpoint, which `what` names. The meaning of the program is compared
  /// unless it may be `anyway` another one.
  Status fits(const Manifest &program, const std::string &what, bool anyway) const;
  /// The tensor of this name, which there is.
  const CheckpointTensor &tensor(const std::string &name) const;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CHECKPOINT_CHECKPOINTMANIFEST_H
