//===- CheckpointReader.h - tensors of a checkpoint -------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CHECKPOINT_CHECKPOINTREADER_H
#define DIVISI_RUNTIME_CHECKPOINT_CHECKPOINTREADER_H

#include "runtime/checkpoint/CheckedFile.h"
#include "runtime/checkpoint/CheckpointManifest.h"
#include "runtime/core/Arena.h"

#include <memory>

namespace divisi::runtime {

/// Reads the tensors of a checkpoint, however they are split: of the files' contents only what is asked for is read,
/// and all that is read is checked.
class CheckpointReader {
public:
  /// Looks at the files that the manifest lists: each must be there with its size. The manifest outlives the reader.
  static Result<CheckpointReader> open(const std::string &folder, const CheckpointManifest &manifest);

  /// Copies the elements of a tensor that `slice` has to its places in `to`. The slice may be one of another view of
  /// the tensor's elements.
  Status read(const CheckpointTensor &tensor, const Slice &slice, char *to);

private:
  struct File {
    std::string path;
    const CheckpointFile *listed = nullptr;
    std::unique_ptr<CheckedFile> contents; ///< null: not needed until now
  };
  CheckpointReader() = default;
  static Status openContents(File &file);
  /// A tensor's piece with this shape; null where the file lacks it.
  static const SafetensorsFile::Entry *find(const File &file, const CheckpointTensor &tensor, const Shape &shape);

  std::vector<File> files;
};

/// Reads this rank's piece of all state. On failure the arena has anything.
Status readCheckpoint(const std::string &folder, const CheckpointManifest &manifest, const Manifest &program,
                      const Arena &arena);

/// Writes a sound checkpoint's tensors, whole, to one safetensors file: those of the model, or `all` state. Has one
/// tensor at a time in memory.
Status exportCheckpoint(const std::string &folder, const std::string &path, bool all);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CHECKPOINT_CHECKPOINTREADER_H
