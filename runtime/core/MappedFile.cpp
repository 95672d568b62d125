#include "runtime/core/MappedFile.h"

#include <csignal>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace divisi::runtime;

Result<MappedFile> MappedFile::open(const std::string &path) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return cannotRead(errno, concat("cannot open '", path, "': ", systemError()));
  MappedFile file;
  file.path_ = path;
  Status status;
  struct stat info = {};
  if (fstat(fd, &info) != 0)
    status = cannotRead(errno, concat("cannot read '", path, "': ", systemError()));
  else if (!S_ISREG(info.st_mode))
    status = failure("'", path, "' is not a regular file");
  else if (info.st_size > 0) {
    void *data = mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
      status = cannotRead(errno, concat("cannot map '", path, "': ", systemError()));
    } else {
      file.data_ = static_cast<const char *>(data);
      file.size_ = static_cast<size_t>(info.st_size);
    }
  }
  close(fd);
  if (!status.ok())
    return status;
  return file;
}

MappedFile &MappedFile::operator=(MappedFile &&other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_)
    munmap(const_cast<char *>(data_), size_);
}

void MappedFile::willNeed(size_t offset, size_t bytes) const { advise(offset, bytes, MADV_WILLNEED); }

void MappedFile::release(size_t offset, size_t bytes) const { advise(offset, bytes, MADV_DONTNEED); }

void MappedFile::advise(size_t offset, size_t bytes, int advice) const {
  auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  size_t begin = offset / page * page;
  madvise(const_cast<char *>(data_) + begin, offset + bytes - begin, advice);
}

void divisi::runtime::explainBusErrors() {
  struct sigaction action = {};
  action.sa_handler = [](int) {
    constexpr std::string_view line =
        "error: a data or weights file became shorter or unreadable while it was in use\n";
    [[maybe_unused]] ssize_t n = write(STDERR_FILENO, line.data(), line.size());
    _exit(1);
  };
  sigaction(SIGBUS, &action, nullptr);
}
