//===- CheckedFile.h - a file whose contents are checked --------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CHECKPOINT_CHECKEDFILE_H
#define DIVISI_RUNTIME_CHECKPOINT_CHECKEDFILE_H

#include "runtime/checkpoint/Safetensors.h"

namespace divisi::runtime {

/// A safetensors file with known hashes. Only the requested parts are read, everything that is read is checked, and at
/// most some MiB stay in this process's memory.
class CheckedFile {
public:
  /// `hashes` are a ChunkHasher's of the file; without them nothing is checked. `changed` is the failure that is
  /// returned if a hash differs.
  static Result<CheckedFile> open(const std::string &path, std::optional<std::string> hashes, Status changed);

  const SafetensorsFile &file() const { return contents; }
  /// Copies bytes of the file, starting at an address in a tensor's data.
  Status copy(const char *from, size_t bytes, char *to);

private:
  CheckedFile(SafetensorsFile contents, std::optional<std::string> hashes, Status changed);
  Status check(size_t begin, size_t bytes);
  void release();

  SafetensorsFile contents;
  std::optional<std::string> hashes;
  Status changed;
  std::vector<bool> checked;                    ///< chunks
  size_t low = SIZE_MAX, high = 0, touched = 0; ///< range that was read since the last release, and its bytes
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CHECKPOINT_CHECKEDFILE_H
