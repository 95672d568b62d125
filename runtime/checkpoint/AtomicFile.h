//===- AtomicFile.h - atomic writing of files -------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CHECKPOINT_ATOMICFILE_H
#define DIVISI_RUNTIME_CHECKPOINT_ATOMICFILE_H

#include "runtime/core/Status.h"

#include <functional>
#include <string_view>

namespace divisi::runtime {

/// A file that gets its name only when it is complete and on disk; until then an older file is unchanged. What is not a
/// regular file (a pipe, a device) is written directly.
class AtomicFile {
public:
  explicit AtomicFile(std::string path);
  AtomicFile(const AtomicFile &) = delete;
  AtomicFile &operator=(const AtomicFile &) = delete;
  /// Removes the file unless it was committed.
  ~AtomicFile();

  /// The first failure is kept; later writes do nothing.
  void write(const void *data, size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  /// The first failure so far.
  const Status &problem() const { return status; }
  /// Renames the file to its name. Returns the first failure; unless it is of the folder's sync, it leaves no file.
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
/// Calls `make` with new names beside `path` until it succeeds (its result is not negative) or fails with another error
/// than EEXIST. Returns the name; empty on failure. `make` must fail for an existing name, even if that is a link.
std::string makeBeside(const std::string &path, const std::function<int(const char *)> &make);
/// The folder of a path; "." if the path contains none.
std::string folderOf(const std::string &path);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CHECKPOINT_ATOMICFILE_H
