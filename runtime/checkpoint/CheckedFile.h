//===- CheckedFile.h - a file of which what is read is checked --*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CHECKPOINT_CHECKEDFILE_H
#define DIVISI_RUNTIME_CHECKPOINT_CHECKEDFILE_H

#include "runtime/checkpoint/Safetensors.h"

namespace divisi::runtime {

/// A safetensors file whose hashes are known: only what is asked for is read, all that is read is checked, and no more
/// than some MiB of it stay in this process's memory.
class CheckedFile {
public:
  /// `hashes` are those that a ChunkHasher has made of the file; without them nothing is checked. `changed` is the
  /// failure of a file that has others.
  static Result<CheckedFile> open(const std::string &path, std::optional<std::string> hashes, Status changed);

  const SafetensorsFile &file() const { return contents; }
  /// Copies bytes of the file, from a tensor's data on.
  Status copy(const char *from, size_t bytes, char *to);

private:
  CheckedFile(SafetensorsFile contents, std::optional<std::string> hashes, Status changed);
  Status check(size_t begin, size_t bytes);
  void release();

  SafetensorsFile contents;
  std::optional<std::string> hashes;
  Status changed;
  std::vector<bool> checked;                    ///< chunks
  size_t low = SIZE_MAX, high = 0, touched = 0; ///< what was read since the last release, and how much of it
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CHECKPOINT_CHECKEDFILE_H
