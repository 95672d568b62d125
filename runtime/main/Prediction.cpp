//===- Prediction.cpp - outputs of the model in files ---------------------===//
#include "runtime/checkpoint/AtomicFile.h"
#include "runtime/data/NpyFile.h"
#include "runtime/main/Trainer.h"

#include <list>

using namespace divisi::runtime;

Status Trainer::predict() {
  struct Target {
    const Prediction *output;
    std::optional<AtomicFile> file; // of the first rank
  };
  std::list<Target> targets;
  int64_t samples = evalData->samples();
  Status opened;
  for (const Prediction &output : program->manifest().predictions) {
    auto chosen = options.predict.find(output.name);
    if (chosen == options.predict.end())
      continue;
    Target &target = targets.emplace_back(&output);
    if (!isFirst())
      continue;
    Shape shape = output.shape;
    shape[0] = shape[0] / manifest.batch * samples;
    std::optional<std::string> header = npyHeader(output.dtype, shape);
    if (!header) {
      opened = failure("--predict ", output.name, ": a .npy file cannot have numbers of the type ", nameOf(output.dtype));
      break;
    }
    target.file.emplace(chosen->second);
    target.file->write(*header);
  }
  if (Status status = together(opened); !status.ok())
    return status;
  auto write = [&](int64_t rows) -> Status {
    for (Target &target : targets) {
      Result<std::string> bytes = program->prediction(*target.output);
      if (!bytes.ok())
        return bytes.status();
      if (target.file)
        target.file->write(bytes->data(), bytes->size() / static_cast<size_t>(manifest.batch) * static_cast<size_t>(rows));
    }
    return {};
  };
  Status status = evaluateBatches(DIVISI_WHEN_PREDICTIONS, "", [](int64_t i) { return concat("in batch ", i + 1); }, write);
  if (!status.ok() || stopped)
    return status;
  Status written;
  for (Target &target : targets)
    if (target.file)
      if (Status status = target.file->commit(); written.ok())
        written = status;
  if (Status status = together(written); !status.ok())
    return status;
  for (const Target &target : targets)
    progress->say(concat("'", target.output->name, "' of ", samples, " samples after step ", point.step, ": ",
                         options.predict.at(target.output->name)));
  return {};
}
