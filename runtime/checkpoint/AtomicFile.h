//===- AtomicFile.h - files written whole or not at all ---------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CHECKPOINT_ATOMICFILE_H
#define DIVISI_RUNTIME_CHECKPOINT_ATOMICFILE_H

#include "runtime/core/Status.h"

#include <functional>
#include <string_view>

namespace divisi::runtime {

/// A file that appears under its name only when it is complete and on disk; until then an older one stays as it is.
/// What is not a regular file (a pipe, a device) is written directly.
class AtomicFile {
public:
  explicit AtomicFile(std::string path);
  AtomicFile(const AtomicFile &) = delete;
  AtomicFile &operator=(const AtomicFile &) = delete;
  /// Removes what has not been committed.
  ~AtomicFile();

  /// The first failure stays; later writes do nothing.
  void write(const void *data, size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  /// Puts the file in place. Reports the first failure, and leaves no trace then.
  Status commit();

private:
  void fail(const char *what);

  std::string path, temporary;
  int fd = -1;
  Status status;
};

/// Writes a small file atomically.
Status writeFile(const std::string &path, std::string_view text);
/// Makes renames and removals in the folder durable.
Status syncFolder(const std::string &folder);
/// Calls `make` with new names beside `path` until it succeeds (a result of 0 or more) or fails with another error than
/// EEXIST. Returns the name, empty on failure. `make` must refuse a name that is taken, by a link, too.
std::string makeBeside(const std::string &path, const std::function<int(const char *)> &make);
/// The folder of a path ("." if it names none).
std::string folderOf(const std::string &path);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CHECKPOINT_ATOMICFILE_H
