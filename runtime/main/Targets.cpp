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

/// A file that the program reads, and what it is.
struct Source {
  std::string path, what;
};

std::vector<Source> sourcesOf(const Options &options, const std::string &program) {
  std::vector<Source> sources = {{program, "this program"}};
  for (const auto *files : {&options.data, &options.eval})
    for (const auto &[input, path] : *files) {
      std::optional<CsvPath> csv = parseCsvPath(path);
      Result<std::vector<std::string>> expanded = expandPattern(csv ? csv->file : path);
      for (const std::string &file : expanded.ok() ? *expanded : std::vector<std::string>())
        sources.push_back({file, concat("the data of '", input, "'")});
    }
  return sources;
}

/// What would be lost if a target was written, or "".
std::string lostBy(const Target &target, const std::vector<Source> &sources, const Options &options,
                   const std::string &weights) {
  std::error_code error;
  if (!fs::exists(target.path, error))
    return "";
  for (const Source &source : sources)
    if (isSameFile(source.path, target.path))
      return source.what;
  if (target.flag != "--save-weights") // which may replace those that training began with
    for (const Source &source : {Source{options.weights, "the file of --weights"}, Source{weights, "the file of this program's weights"}})
      if (!source.path.empty() && isSameFile(source.path, target.path))
        return source.what;
  return !options.checkpoint.empty() && isOfCheckpoint(target.path, options.checkpoint) ? "a file of --checkpoint" : "";
}
} // namespace

Status divisi::runtime::checkTargets(const Options &options, const std::string &program, const std::string &weights) {
  const std::vector<Target> targets = targetsOf(options);
  const std::vector<Source> sources = sourcesOf(options, program);
  for (const Target &target : targets)
    if (std::string lost = lostBy(target, sources, options, weights); !lost.empty())
      return Status::usage(concat(target.flag, " ", target.path, ": this is ", lost, ", which would be lost: name another file"));
  for (size_t i = 0; i < targets.size(); ++i) {
    for (size_t j = 0; j < i; ++j)
      if (isSameFile(targets[i].path, targets[j].path))
        return Status::usage(concat(targets[i].flag, " ", targets[i].path, ": ", targets[j].flag,
                                    " writes this file, too: name another one"));
    if (!targets[i].writesAtEnd)
      continue;
    if (Status status = AtomicFile(targets[i].path).problem(); !status.ok())
      return failure(targets[i].flag, ": ", status.message());
  }
  return {};
}
