#include "runtime/main/Targets.h"
#include "runtime/checkpoint/AtomicFile.h"
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/data/CsvFile.h"
#include "runtime/data/Paths.h"

#include <filesystem>

using namespace divisi::runtime;

namespace fs = std::filesystem;

namespace {
struct Target {
  std::string flag, path;
  bool writesAtEnd = true; ///< others are opened before the first step
};

std::vector<Target> targetsOf(const Options &options) {
  std::vector<Target> targets = {{"--log", options.log, false},
                                 {"--profile", options.profile},
                                 {"--trace", options.trace},
                                 {"--save", options.save},
                                 {"--save-weights", options.saveWeights}};
  for (const auto &[output, path] : options.predict)
    targets.push_back({"--predict", path});
  std::erase_if(targets, [](const Target &target) {
    std::error_code error;
    fs::file_type type = fs::status(target.path, error).type();
    // A pipe or a device has no contents to lose, and must be opened once only.
    return target.path.empty() || (fs::exists(target.path, error) && type != fs::file_type::regular);
  });
  return targets;
}

bool isSame(const std::string &a, const std::string &b) {
  std::error_code error, other;
  if (fs::equivalent(a, b, error) && !error)
    return true;
  fs::path first = fs::weakly_canonical(a, error), second = fs::weakly_canonical(b, other);
  return !error && !other && first == second;
}

Status lost(const Target &target, const std::string &what) {
  return Status::usage(concat(target.flag, " ", target.path, ": this is ", what, ", which would be lost: name another file"));
}

/// An error if a target is one of these files, which the program reads.
Status checkRead(const std::vector<Target> &targets, const std::vector<std::string> &files, const std::string &what) {
  for (const std::string &file : files)
    for (const Target &target : targets)
      if (isSame(file, target.path))
        return lost(target, what);
  return {};
}

/// Checks the targets that exist.
Status checkExisting(std::vector<Target> targets, const Options &options, const std::string &program,
                     const std::string &weights) {
  for (const auto *files : {&options.data, &options.eval})
    for (const auto &[input, path] : *files) {
      std::optional<CsvPath> csv = parseCsvPath(path);
      Result<std::vector<std::string>> expanded = expandPattern(csv ? csv->file : path);
      if (!expanded.ok())
        continue;
      if (Status status = checkRead(targets, *expanded, concat("the data of '", input, "'")); !status.ok())
        return status;
    }
  if (Status status = checkRead(targets, {program}, "this program"); !status.ok())
    return status;
  for (const Target &target : targets)
    if (!options.checkpoint.empty() && isOfCheckpoint(target.path, options.checkpoint))
      return lost(target, "a file of --checkpoint");
  // Weights may replace those that training began with.
  std::erase_if(targets, [](const Target &target) { return target.flag == "--save-weights"; });
  Status status = checkRead(targets, {options.weights}, "the file of --weights");
  return status.ok() ? checkRead(targets, {weights}, "the file of this program's weights") : status;
}
} // namespace

Status divisi::runtime::checkTargets(const Options &options, const std::string &program, const std::string &weights) {
  std::vector<Target> targets = targetsOf(options), existing = targets;
  std::erase_if(existing, [](const Target &target) {
    std::error_code error;
    return !fs::exists(target.path, error);
  });
  if (Status status = existing.empty() ? Status() : checkExisting(existing, options, program, weights); !status.ok())
    return status;
  for (size_t i = 0; i < targets.size(); ++i) {
    for (size_t j = 0; j < i; ++j)
      if (isSame(targets[i].path, targets[j].path))
        return Status::usage(concat(targets[i].flag, " ", targets[i].path, ": ", targets[j].flag,
                                    " writes this file, too: name another one"));
    if (!targets[i].writesAtEnd)
      continue;
    if (Status status = AtomicFile(targets[i].path).problem(); !status.ok())
      return failure(targets[i].flag, ": ", status.message());
  }
  return {};
}
