#include "runtime/checkpoint/AtomicFile.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <random>
#include <sys/stat.h>
#include <unistd.h>

using namespace divisi::runtime;

std::string divisi::runtime::folderOf(const std::string &path) {
  std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

std::string divisi::runtime::makeBeside(const std::string &path, const std::function<int(const char *)> &make) {
  constexpr size_t longest = 200; // of a name, so that the suffix fits
  std::filesystem::path whole(path);
  std::string start = (whole.parent_path() / whole.filename().string().substr(0, longest)).string();
  std::random_device random; // the system's, so that the name is unpredictable
  for (int tries = 0; tries < 100; ++tries) {
    std::array<char, 24> suffix;
    std::snprintf(suffix.data(), suffix.size(), ".tmp-%08x%08x", random(), random());
    std::string name = start + suffix.data();
    if (make(name.c_str()) >= 0)
      return name;
    if (errno != EEXIST)
      break;
  }
  return "";
}

AtomicFile::AtomicFile(std::string name) : path(std::move(name)) {
  // The system decides whether the user may write to this file, or to the target of a link.
  fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  struct stat info = {};
  if (fd >= 0 && fstat(fd, &info) == 0 && !S_ISREG(info.st_mode))
    return;
  if (fd < 0 && errno != ENOENT) {
    fail("write");
    return;
  }
  if (fd >= 0) {
    close(fd);
    // A symbolic link is kept; the file to which it points is replaced.
    std::error_code error;
    if (auto target = std::filesystem::canonical(path, error); !error)
      path = target.string();
  }
  temporary = makeBeside(path, [&](const char *free) {
    return fd = ::open(free, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  });
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
    status = Status::refused(concat("cannot ", what, " '", path, "': ", systemError()));
}

void AtomicFile::write(const void *data, size_t bytes) {
  const auto *p = static_cast<const char *>(data);
  while (bytes > 0 && status.ok()) {
    ssize_t n = ::write(fd, p, std::min(bytes, size_t(1) << 30));
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0) {
      errno = n < 0 ? errno : EIO;
      return fail("write");
    }
    p += n;
    bytes -= static_cast<size_t>(n);
  }
}

Status AtomicFile::commit() {
  if (status.ok() && !temporary.empty()) {
    int done = 0;
    while ((done = fsync(fd)) != 0 && errno == EINTR)
      ;
    if (done != 0)
      fail("write");
  }
  if (fd >= 0 && close(fd) != 0 && errno != EINTR) // it is closed, and was synced
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
  // Some file systems cannot sync a folder (EINVAL); this is no failure.
  bool fine = fd >= 0 && (fsync(fd) == 0 || errno == EINVAL);
  Status status = fine ? Status() : Status::refused(concat("cannot write to folder '", folder, "': ", systemError()));
  if (fd >= 0)
    close(fd);
  return status;
}
