#include "test/runtime/checkpoint/FaultyFiles.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <map>
#include <mutex>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

using divisi::test::FaultyFiles;

namespace {
/// The fault that the test has set, and the calls since then.
struct Armed {
  FaultyFiles::Fault fault = FaultyFiles::Fault::Error;
  int64_t at = -1, calls = 0;
  bool dead = false, full = false;
  std::string name; ///< of the call that was hit
  /// Names of files with bytes that no fsync has made durable.
  std::map<std::string, bool> unsynced;
  struct Rename {
    std::string from, to, folder, old;
    bool replaced = false;
  };
  std::vector<Rename> renames; ///< in folders that were not synced since
};
std::recursive_mutex mutex;
Armed *armed = nullptr;

bool losesPower(FaultyFiles::Fault fault) {
  return fault == FaultyFiles::Fault::PowerLoss || fault == FaultyFiles::Fault::Reordered;
}

template <typename Function> Function next(const char *name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

/// Whether this call succeeds; otherwise it sets errno. `half` is set if the call is a write that is cut short.
bool passes(const char *name, bool *half = nullptr) {
  std::lock_guard lock(mutex);
  if (!armed)
    return true;
  if (armed->dead || (armed->full && half)) {
    errno = armed->full ? ENOSPC : EIO;
    return false;
  }
  if (armed->calls++ != armed->at)
    return true;
  armed->name = name;
  using enum FaultyFiles::Fault;
  if (half && (armed->fault == Full || armed->fault == TornKill))
    *half = true;
  armed->full = armed->fault == Full;
  armed->dead = armed->fault != Error && armed->fault != Full;
  errno = armed->full ? ENOSPC : EIO;
  return half && *half;
}

std::string pathOf(int fd) {
  std::array<char, PATH_MAX> path;
  ssize_t n = readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path.data(), path.size());
  return n > 0 ? std::string(path.data(), static_cast<size_t>(n)) : "";
}

std::string folderOf(const std::string &path) { return path.substr(0, path.rfind('/')); }

std::string contentsOf(const std::string &path) {
  std::string text;
  if (std::FILE *file = std::fopen(path.c_str(), "rb")) {
    for (int c; (c = std::fgetc(file)) != EOF;)
      text += static_cast<char>(c);
    std::fclose(file);
  }
  return text;
}

void noteWrite(int fd) {
  std::lock_guard lock(mutex);
  if (armed && losesPower(armed->fault))
    armed->unsynced[pathOf(fd)] = true;
}

void noteSync(int fd) {
  std::lock_guard lock(mutex);
  if (!armed || !losesPower(armed->fault))
    return;
  std::string path = pathOf(fd);
  armed->unsynced.erase(path);
  std::erase_if(armed->renames, [&](const Armed::Rename &rename) { return rename.folder == path; });
}

Armed::Rename beforeRename(const char *from, const char *to) {
  Armed::Rename rename{from, to, folderOf(to), "", false};
  struct stat info = {};
  rename.replaced = stat(to, &info) == 0 && S_ISREG(info.st_mode);
  if (rename.replaced)
    rename.old = contentsOf(to);
  return rename;
}

void noteRename(const Armed::Rename &rename) {
  std::lock_guard lock(mutex);
  if (!armed || !losesPower(armed->fault))
    return;
  armed->renames.push_back(rename);
  // Files keep their state under the new name; for a folder, so do all files in it.
  std::map<std::string, bool> moved;
  for (const auto &[path, is] : armed->unsynced)
    moved[path == rename.from || path.starts_with(rename.from + "/") ? rename.to + path.substr(rename.from.size())
                                                                     : path] = is;
  armed->unsynced = std::move(moved);
}

/// Leaves the contents of the disk after a power loss.
void losePower(Armed state) {
  for (const auto &[path, is] : state.unsynced)
    if (truncate(path.c_str(), 0) != 0 && errno != ENOENT)
      std::perror("truncate");
  if (state.fault != FaultyFiles::Fault::Reordered)
    return;
  for (auto it = state.renames.rbegin(); it != state.renames.rend(); ++it) {
    if (std::rename(it->to.c_str(), it->from.c_str()) != 0 || !it->replaced)
      continue;
    if (std::FILE *file = std::fopen(it->to.c_str(), "wb")) {
      std::fwrite(it->old.data(), 1, it->old.size(), file);
      std::fclose(file);
    }
  }
}

int openWith(const char *name, const char *path, int flags, mode_t mode) {
  return passes("open") ? next<int (*)(const char *, int, ...)>(name)(path, flags, mode) : -1;
}
int openAtWith(const char *name, int folder, const char *path, int flags, mode_t mode) {
  return passes("openat") ? next<int (*)(int, const char *, int, ...)>(name)(folder, path, flags, mode) : -1;
}
mode_t modeOf(int flags, va_list list) { return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(list, mode_t) : 0; }
} // namespace

extern "C" {
int open(const char *path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  mode_t mode = modeOf(flags, list);
  va_end(list);
  return openWith("open", path, flags, mode);
}
int open64(const char *path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  mode_t mode = modeOf(flags, list);
  va_end(list);
  return openWith("open64", path, flags, mode);
}
int openat(int folder, const char *path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  mode_t mode = modeOf(flags, list);
  va_end(list);
  return openAtWith("openat", folder, path, flags, mode);
}
int openat64(int folder, const char *path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  mode_t mode = modeOf(flags, list);
  va_end(list);
  return openAtWith("openat64", folder, path, flags, mode);
}
ssize_t write(int fd, const void *data, size_t bytes) {
  bool half = false;
  if (!passes("write", &half))
    return -1;
  noteWrite(fd);
  return next<ssize_t (*)(int, const void *, size_t)>("write")(fd, data, half ? bytes / 2 : bytes);
}
ssize_t pwrite(int fd, const void *data, size_t bytes, off_t offset) {
  bool half = false;
  if (!passes("pwrite", &half))
    return -1;
  noteWrite(fd);
  return next<ssize_t (*)(int, const void *, size_t, off_t)>("pwrite")(fd, data, half ? bytes / 2 : bytes, offset);
}
int fsync(int fd) {
  if (!passes("fsync"))
    return -1;
  noteSync(fd);
  return next<int (*)(int)>("fsync")(fd);
}
int close(int fd) {
  bool good = passes("close");
  int saved = errno, result = next<int (*)(int)>("close")(fd); // closed in any case
  errno = good ? errno : saved;
  return good ? result : -1;
}
int rename(const char *from, const char *to) noexcept {
  if (!passes("rename"))
    return -1;
  Armed *counting = std::exchange(armed, nullptr);
  Armed::Rename rename = beforeRename(from, to);
  armed = counting;
  int result = next<int (*)(const char *, const char *)>("rename")(from, to);
  if (result == 0)
    noteRename(rename);
  return result;
}
int mkdir(const char *path, mode_t mode) noexcept {
  return passes("mkdir") ? next<int (*)(const char *, mode_t)>("mkdir")(path, mode) : -1;
}
int unlink(const char *path) noexcept {
  return passes("unlink") ? next<int (*)(const char *)>("unlink")(path) : -1;
}
int unlinkat(int folder, const char *path, int flags) noexcept {
  return passes("unlinkat") ? next<int (*)(int, const char *, int)>("unlinkat")(folder, path, flags) : -1;
}
int remove(const char *path) noexcept {
  return passes("remove") ? next<int (*)(const char *)>("remove")(path) : -1;
}
int fstat(int fd, struct stat *info) noexcept {
  return passes("fstat") ? next<int (*)(int, struct stat *)>("fstat")(fd, info) : -1;
}
int flock(int fd, int operation) noexcept {
  return passes("flock") ? next<int (*)(int, int)>("flock")(fd, operation) : -1;
}
void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset) noexcept {
  auto real = next<void *(*)(void *, size_t, int, int, int, off_t)>("mmap");
  return (flags & MAP_ANONYMOUS) != 0 || passes("mmap") ? real(at, bytes, protection, flags, fd, offset) : MAP_FAILED;
}
DIR *opendir(const char *path) {
  return passes("opendir") ? next<DIR *(*)(const char *)>("opendir")(path) : nullptr;
}
DIR *fdopendir(int fd) { return passes("fdopendir") ? next<DIR *(*)(int)>("fdopendir")(fd) : nullptr; }
char *realpath(const char *path, char *resolved) noexcept {
  return passes("realpath") ? next<char *(*)(const char *, char *)>("realpath")(path, resolved) : nullptr;
}
}

namespace divisi::test {

FaultyFiles::FaultyFiles(Fault fault, int64_t at) {
  std::lock_guard lock(mutex);
  armed = new Armed;
  armed->fault = fault;
  armed->at = at;
}

FaultyFiles::~FaultyFiles() {
  std::lock_guard lock(mutex);
  Armed *state = std::exchange(armed, nullptr);
  if (losesPower(state->fault) && state->dead)
    losePower(std::move(*state));
  delete state;
}

bool FaultyFiles::hit() const { return !armed->name.empty(); }
int64_t FaultyFiles::calls() const { return armed->calls; }
std::string FaultyFiles::name() const { return armed->name; }

const char *nameOf(FaultyFiles::Fault fault) {
  constexpr std::array names = {"an error", "a full disk", "a kill", "a kill within", "a power loss",
                                "a power loss that takes renames back"};
  return names[static_cast<size_t>(fault)];
}

} // namespace divisi::test
