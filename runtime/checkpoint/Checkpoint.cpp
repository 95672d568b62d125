#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/AtomicFile.h"
#include "runtime/checkpoint/CheckpointReader.h"
#include "runtime/comm/Communicator.h"
#include "runtime/core/MappedFile.h"

#include <algorithm>
#include <chrono>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

using namespace divisi::runtime;
namespace fs = std::filesystem;

namespace {
/// The number N of "step-N".
std::optional<int64_t> stepOf(const std::string &name) {
  if (!name.starts_with("step-") || name.size() < 6 || name.size() > 23 ||
      !std::all_of(name.begin() + 5, name.end(), [](char c) { return c >= '0' && c <= '9'; }))
    return std::nullopt;
  return std::stoll(name.substr(5));
}

/// The reason why a checkpoint cannot be used: damaged checkpoints are skipped; one of another program is an error, and
/// one that the system does not let this program read.
struct Problem {
  Status status;
  enum Kind { None, Damaged, Foreign } kind = None;
};
Problem::Kind kindFor(const Status &ofReading) { return ofReading.isRefused() ? Problem::Foreign : Problem::Damaged; }

/// Reads the manifest and this rank's shards of the state.
Problem read(const std::string &parent, const std::string &name, const Manifest &program, const Arena &arena,
             bool anyway, TrainingPoint &point) {
  std::string folder = parent + "/" + name, what = concat("'", folder, "'");
  CheckpointManifest::Fault fault;
  Result<CheckpointManifest> manifest = CheckpointManifest::read(folder + "/manifest.json", fault);
  if (!manifest.ok())
    return {manifest.status(), fault == CheckpointManifest::Fault::Damaged ? kindFor(manifest.status()) : Problem::Foreign};
  if (manifest->point.step != stepOf(name))
    return {failure(what, " has the manifest of step ", manifest->point.step), Problem::Damaged};
  if (manifest->batchSize != program.batch)
    return {failure(what, " was made with a batch of ", manifest->batchSize, ", but the model has ", program.batch),
            Problem::Foreign};
  if (Status status = manifest->fits(program, what, anyway); !status.ok())
    return {status, Problem::Foreign};
  if (Status status = readCheckpoint(folder, *manifest, program, arena); !status.ok())
    return {status, kindFor(status)};
  point = std::move(manifest->point);
  return {};
}

/// The worst problem of any rank, on all ranks.
Problem agree(Problem mine, Communicator *ranks) {
  if (!ranks)
    return mine;
  Result<int64_t> worst = ranks->maximum(mine.kind);
  if (!worst.ok())
    return {worst.status(), Problem::Foreign};
  auto kind = static_cast<Problem::Kind>(*worst);
  Status status = ranks->agree(mine.kind == kind ? mine.status : Status()).status();
  return {status, kind == Problem::None && !status.ok() ? Problem::Foreign : kind};
}

std::string systemMessage(const std::error_code &error) { return error.message(); }
} // namespace

Result<CheckpointFolder> CheckpointFolder::open(const std::string &path, int64_t kept) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error || !fs::is_directory(path, error))
    return failure("cannot make the folder '", path, "': ", error ? systemMessage(error) : "a file has this name");
  return CheckpointFolder(path, kept);
}

void CheckpointFolder::Release::operator()(const int *fd) const {
  close(*fd);
  delete fd;
}

Status CheckpointFolder::lock() {
  std::string path = folder + "/.lock";
  int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (fd < 0)
    return failure("cannot write to the folder '", folder, "': ", systemError());
  held.reset(new int(fd));
  // A program that was ended a moment ago may still hold the lock.
  for (int tries = 0; flock(fd, LOCK_EX | LOCK_NB) != 0; ++tries) {
    if (errno == EINTR)
      continue;
    if (errno != EWOULDBLOCK) // this file system has no locks
      return {};
    if (tries == 20)
      return failure("--checkpoint ", folder,
                     ": another program keeps its checkpoints here; wait until it ends, or name another folder");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return {};
}

Result<std::vector<std::string>> CheckpointFolder::list() const {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (std::string name = it->path().filename().string(); stepOf(name))
      names.push_back(name);
  if (error)
    return failure("cannot read the folder '", folder, "': ", systemMessage(error));
  std::sort(names.begin(), names.end(), [](auto &a, auto &b) { return *stepOf(a) > *stepOf(b); });
  return names;
}

void CheckpointFolder::discard(const std::string &path) {
  std::error_code ignored;
  if (!path.empty())
    fs::remove_all(path, ignored);
}

Result<std::string> CheckpointFolder::begin(int64_t step) const {
  std::string name = concat("step-", step);
  std::string temporary = makeBeside(concat(folder, "/.", name), [](const char *free) { return mkdir(free, 0777); });
  if (temporary.empty())
    return failure("cannot write checkpoint '", folder, "/", name, "': ", systemError());
  return temporary;
}

Status CheckpointFolder::commit(const std::string &temporary, const CheckpointManifest &manifest) const {
  std::string name = concat("step-", manifest.point.step);
  Status status = manifest.write(temporary + "/manifest.json");
  if (status.ok())
    status = publish(temporary, name);
  if (status.ok())
    clearUp(manifest.point.step);
  return status;
}

Status CheckpointFolder::publish(const std::string &temporary, const std::string &name) const {
  std::string place = folder + "/" + name, old = temporary + ".old";
  std::error_code error, ignored;
  Status status = syncFolder(temporary);
  if (!status.ok())
    return status;
  bool replaces = fs::exists(place, ignored); // a damaged one
  if (replaces)
    fs::rename(place, old, error);
  if (!error)
    fs::rename(temporary, place, error);
  if (error) {
    if (replaces)
      fs::rename(old, place, ignored);
    return failure("cannot write checkpoint '", place, "': ", systemMessage(error));
  }
  status = syncFolder(folder);
  if (status.ok())
    status = writeFile(folder + "/latest", name + "\n");
  discard(old);
  return status;
}

void CheckpointFolder::clearUp(int64_t newest) const {
  Result<std::vector<std::string>> names = list();
  if (!names.ok())
    return;
  // Checkpoints of later steps were skipped when training was resumed from an earlier one.
  std::erase_if(*names, [&](const std::string &name) {
    bool later = *stepOf(name) > newest;
    if (later)
      discard(folder + "/" + name);
    return later;
  });
  std::optional<double> least;
  std::string best;
  for (const std::string &name : *names) {
    CheckpointManifest::Fault fault;
    Result<CheckpointManifest> manifest = CheckpointManifest::read(folder + "/" + name + "/manifest.json", fault);
    if (manifest.ok() && manifest->point.evalLoss && (!least || *manifest->point.evalLoss < *least)) {
      least = manifest->point.evalLoss;
      best = name;
    }
  }
  // A checkpoint is complete without this file.
  std::string bestFile = folder + "/best", line = best + "\n";
  Result<MappedFile> before = best.empty() ? failure("none") : MappedFile::open(bestFile);
  if (!best.empty() && (!before.ok() || before->text() != line))
    (void)writeFile(bestFile, line).ok();
  for (size_t i = kept; i < names->size(); ++i)
    if ((*names)[i] != best)
      discard(folder + "/" + (*names)[i]);
  // Removes what programs left that were killed while they wrote.
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (std::string name = it->path().filename().string();
        name.starts_with(".step-") || name.starts_with("latest.tmp-") || name.starts_with("best.tmp-"))
      discard(it->path().string());
}

Result<TrainingPoint> CheckpointFolder::restore(const Manifest &manifest, const Arena &arena, std::string &name,
                                                const std::function<void(const std::string &)> &warn, bool anyway,
                                                Communicator *ranks) const {
  // Rank 0 tells the others which checkpoints exist.
  Result<std::vector<std::string>> names = list();
  std::error_code error;
  if ((!ranks || ranks->rank() == 0) && names.ok() && names->empty() && fs::exists(folder + "/latest", error))
    names = failure("'", folder, "/latest' names a checkpoint, but the folder has none: copy it there, or remove 'latest' to start from the beginning");
  std::string all;
  for (const std::string &candidate : names.ok() ? *names : std::vector<std::string>())
    all += candidate + "\n";
  if (ranks) {
    if (Status status = ranks->agree(names.status()).status(); !status.ok())
      return status;
    if (Status status = ranks->broadcast(all); !status.ok())
      return status;
  } else if (!names.ok()) {
    return names.status();
  }
  bool none = all.empty();
  for (size_t end; (end = all.find('\n')) != std::string::npos; all.erase(0, end + 1)) {
    std::string candidate = all.substr(0, end);
    TrainingPoint point;
    Problem problem = agree(read(folder, candidate, manifest, arena, anyway, point), ranks);
    if (problem.kind == Problem::None) {
      name = candidate;
      return point;
    }
    if (problem.kind == Problem::Foreign)
      return problem.status;
    warn(concat("passing over checkpoint ", candidate, ": ", problem.status.message()));
  }
  name.clear();
  if (none)
    return TrainingPoint();
  return failure("there is no usable checkpoint in '", folder, "'");
}

bool divisi::runtime::isOfCheckpoint(const std::string &file, const std::string &folder) {
  std::error_code error;
  const fs::path inside = fs::canonical(file, error).lexically_relative(fs::canonical(folder, error));
  const std::string first = inside.empty() ? ".." : inside.begin()->string();
  if (first == "..")
    return false;
  if (fs::exists(folder + "/manifest.json", error))
    return first == "manifest.json" || first.starts_with("state");
  return first == "latest" || first == "best" || stepOf(first) >= 0;
}
