#include "runtime/checkpoint/AtomicFile.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

using namespace divisi::runtime;

std::string divisi::runtime::folderOf(const std::string &path) {
  std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

AtomicFile::AtomicFile(std::string name) : path(std::move(name)) {
  struct stat info = {};
  bool exists = stat(path.c_str(), &info) == 0;
  if (exists && S_ISDIR(info.st_mode)) {
    errno = EISDIR;
    fail("write");
    return;
  }
  if (exists && !S_ISREG(info.st_mode)) {
    fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  } else {
    // A link stays a link: the file it names is replaced.
    std::error_code error;
    if (auto target = std::filesystem::canonical(path, error); !error)
      path = target.string();
    temporary = path + ".tmp-" + std::to_string(getpid());
    fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  }
  if (fd < 0)
    fail("write");
}

AtomicFile::~AtomicFile() {
  if (fd >= 0)
    close(fd);
  if (!temporary.empty())
    unlink(temporary.c_str());
}

void AtomicFile::fail(const char *what) {
  if (status.ok())
    status = failure("cannot ", what, " '", path, "': ", systemError());
}

void AtomicFile::write(const void *data, size_t bytes) {
  const auto *p = static_cast<const char *>(data);
  while (bytes > 0 && status.ok()) {
    ssize_t n = ::write(fd, p, std::min(bytes, size_t(1) << 30));
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return fail("write");
    p += n;
    bytes -= static_cast<size_t>(n);
  }
}

Status AtomicFile::commit() {
  if (status.ok() && !temporary.empty() && fsync(fd) != 0)
    fail("write");
  if (fd >= 0 && close(fd) != 0)
    fail("write");
  fd = -1;
  if (status.ok() && !temporary.empty()) {
    if (rename(temporary.c_str(), path.c_str()) != 0) {
      fail("write");
    } else {
      temporary.clear();
      status = syncFolder(folderOf(path));
    }
  }
  return status;
}

Status divisi::runtime::writeFile(const std::string &path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  return file.commit();
}

Status divisi::runtime::syncFolder(const std::string &folder) {
  int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  // Some file systems cannot sync a folder (EINVAL): then there is nothing more to do.
  bool fine = fd >= 0 && (fsync(fd) == 0 || errno == EINVAL);
  Status status = fine ? Status() : failure("cannot write to folder '", folder, "': ", systemError());
  if (fd >= 0)
    close(fd);
  return status;
}
