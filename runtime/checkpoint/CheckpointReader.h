//===- CheckpointReader.h - tensors of a checkpoint -------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CHECKPOINT_CHECKPOINTREADER_H
#define DIVISI_RUNTIME_CHECKPOINT_CHECKPOINTREADER_H

#include "runtime/checkpoint/CheckedFile.h"
#include "runtime/checkpoint/CheckpointManifest.h"
#include "runtime/core/Arena.h"

#include <memory>

namespace divisi::runtime {

/// Reads the tensors of a checkpoint, however they are sharded. Only the requested parts of the files are read, and
/// everything that is read is checked.
class CheckpointReader {
public:
  /// Checks that all files of the manifest exist with their sizes. The manifest must outlive the reader.
  static Result<CheckpointReader> open(const std::string &folder, const CheckpointManifest &manifest);

  /// Copies the elements of a slice of a tensor to `to`. The slice may be one of a reshape of the tensor.
  Status read(const CheckpointTensor &tensor, const Slice &slice, char *to);

private:
  struct File {
    std::string path;
    const CheckpointFile *listed = nullptr;
    std::unique_ptr<CheckedFile> contents; ///< null: not opened yet
  };
  CheckpointReader() = default;
  static Status openContents(File &file);
  /// A tensor's shard with this shape; null if the file has none.
  static const SafetensorsFile::Entry *find(const File &file, const CheckpointTensor &tensor, const Shape &shape);

  std::vector<File> files;
};

/// Reads this rank's shards of all state. After a failure the arena's contents are undefined.
Status readCheckpoint(const std::string &folder, const CheckpointManifest &manifest, const Manifest &program,
                      const Arena &arena);

/// Writes the whole tensors of a valid checkpoint to one safetensors file: those of the model, or `all` state.
/// `averaged`: moving averages of parameters in the parameters' place. Keeps one tensor at a time in memory.
Status exportCheckpoint(const std::string &folder, const std::string &path, bool all, bool averaged = false);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CHECKPOINT_CHECKPOINTREADER_H
