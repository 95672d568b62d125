//===- MappedFile.h - a file as memory --------------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CORE_MAPPEDFILE_H
#define DIVISI_RUNTIME_CORE_MAPPEDFILE_H

#include "runtime/core/Status.h"

#include <string_view>

namespace divisi::runtime {

/// The contents of a regular file, mapped for reading.
class MappedFile {
public:
  static Result<MappedFile> open(const std::string &path);
  MappedFile(MappedFile &&other) noexcept { *this = std::move(other); }
  MappedFile &operator=(MappedFile &&other) noexcept;
  ~MappedFile();

  const std::string &path() const { return path_; }
  const char *data() const { return data_; }
  size_t size() const { return size_; }
  std::string_view text() const { return {data_, size_}; }
  /// Requests that the system reads this range ahead.
  void willNeed(size_t offset, size_t bytes) const;
  /// Releases this range from the process's memory until it is read again.
  void release(size_t offset, size_t bytes) const;

private:
  MappedFile() = default;
  void advise(size_t offset, size_t bytes, int advice) const;

  std::string path_;
  const char *data_ = nullptr;
  size_t size_ = 0;
};

/// If a mapped file is truncated by another process, reading it ends the program; this makes it end with an error
/// message.
void explainBusErrors();

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CORE_MAPPEDFILE_H
