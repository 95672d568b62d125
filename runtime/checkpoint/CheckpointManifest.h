//===- CheckpointManifest.h - the contents of a checkpoint ------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CHECKPOINT_CHECKPOINTMANIFEST_H
#define DIVISI_RUNTIME_CHECKPOINT_CHECKPOINTMANIFEST_H

#include "runtime/core/Manifest.h"
#include "runtime/core/NoiseScale.h"
#include "runtime/core/Tally.h"
#include "runtime/data/BatchSource.h"

namespace divisi::runtime {

/// The progress of a training, without its tensors.
struct TrainingPoint {
  int64_t step = 0; ///< finished steps
  Cursor cursor;
  uint64_t seed = 0;
  bool shuffle = true;
  int64_t samples = 0; ///< of the training data; 0: it was fed by another process
  /// The flags that belong to the training, as texts by name.
  std::map<std::string, std::string> flags = {};
  std::optional<double> evalLoss = {}; ///< if an evaluation followed this step
  Tally epoch = {};                    ///< of the steps of the unfinished epoch
  EvaluationHistory evaluations = {};
  NoiseScale noise = {}; ///< its averages, if the program measures it
  ClassNames classes = {}; ///< the folders whose positions were the labels
  std::string position = {}; ///< of the data of the process that feeds it, as it says (BatchRing)
  int64_t updatesBefore = 0; ///< that the program's state of the step counted before the first step
};

/// The same as a text, for another rank.
std::string textOf(const TrainingPoint &point);
Result<TrainingPoint> pointIn(const std::string &text);

/// A file of a checkpoint, written by one rank.
struct CheckpointFile {
  std::string name;
  int64_t bytes = 0;
  std::string hashes; ///< of its contents (ChunkHasher)
};

/// A tensor of a checkpoint, in one or more shards.
struct CheckpointTensor {
  std::string name, role;
  DataType dtype = DataType::F32;
  Shape shape;  ///< in files and for users
  Shape pieced; ///< a reshape of the same elements, which is sharded
  struct Piece {
    size_t file = 0; ///< the file that contains it, under the tensor's name
    Shape start, shape;
  };
  std::vector<Piece> pieces;
  int64_t replicas = 0; ///< the size of the first dimension if each replica has a tensor of its own; 0: there is one
};

/// The `manifest.json` of a checkpoint. It contains a hash of itself, so that an edited or damaged one is detected.
struct CheckpointManifest {
  TrainingPoint point;
  std::string model;                          ///< name
  std::string state;                          ///< Manifest::identity
  std::map<std::string, std::string> program; ///< Manifest::program
  int64_t batchSize = 0;
  std::vector<CheckpointFile> files;
  std::vector<CheckpointTensor> tensors;

  /// The manifest of a checkpoint of this program; `files` are those of the ranks, in order (an empty name: no file).
  static CheckpointManifest of(const Manifest &program, TrainingPoint point, std::vector<CheckpointFile> files);

  Status write(const std::string &path) const;
  /// Why a checkpoint cannot be used: it is damaged, or it is of another program.
  enum class Fault { Damaged, Foreign };
  /// On failure `fault` is the reason.
  static Result<CheckpointManifest> read(const std::string &path, Fault &fault);

  /// Fails with the reason if the program cannot resume from this checkpoint, which `what` names. With `anyway` the
  /// program's meaning may differ.
  Status fits(const Manifest &program, const std::string &what, bool anyway) const;
  /// The tensor of this name, which must exist.
  const CheckpointTensor &tensor(const std::string &name) const;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CHECKPOINT_CHECKPOINTMANIFEST_H
