//===- TarReader.h - the members of a tar file ------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DATA_IMAGES_TARREADER_H
#define DIVISI_RUNTIME_DATA_IMAGES_TARREADER_H

#include "runtime/core/Status.h"

#include <cstdint>
#include <functional>

namespace divisi::runtime {

/// A member of a tar file.
struct TarMember {
  std::string name;
  int64_t offset = 0, bytes = 0; ///< of its contents
  const char *other = nullptr;   ///< what it is if it is no regular file: "a hard link"
};

/// Calls `visit` with each member of the tar file whose contents are `text`, except folders, until it fails: ustar with
/// the extensions for long names and sizes of GNU tar and of pax (POSIX.1-2001), not compressed. A file without an end,
/// or with anything behind it, is refused. An error is the end of a sentence that begins with the file's name.
Status forEachMember(std::string_view text, const std::function<Status(const TarMember &)> &visit);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_DATA_IMAGES_TARREADER_H
