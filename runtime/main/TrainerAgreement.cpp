// What ranks of a Trainer agree on: their command, when to stop, and who is left.
#include "runtime/comm/tcp/Rendezvous.h"
#include "runtime/core/Hash.h"
#include "runtime/core/Json.h"
#include "runtime/main/Trainer.h"

#include <iostream>

using namespace divisi::runtime;

Status Trainer::outlive() {
  const bool onGpu = code.device_code_count > 0 && options.device != "cpu";
  if (!std::getenv(outlivesLosses) || onGpu || !manifest.canLoseWorkers() || !options.feed.empty() ||
      options.findRate || options.evalOnly)
    return {};
  std::vector<bool> spared(static_cast<size_t>(ranks->size()));
  for (int64_t rank = 1; rank < manifest.mesh.size(); ++rank)
    spared[static_cast<size_t>(rank)] = true;
  ranks->outlive(spared);
  if (!transport->isSpared(1))
    return Status::usage(concat(
        outlivesLosses,
        ": ranks that meet over MPI end when one of them is lost: start them over TCP (divisi run --min-devices)"));
  ranks->reduceBy(Reducers{manifest.shareAxis(), false});
  missed.assign(spared.size(), false);
  return {};
}

Status Trainer::letIn() {
  Result<std::vector<int>> came = ranks->letIn();
  if (!came.ok())
    return ranks->located(came.status());
  for (int rank : *came) {
    if (isFirst()) {
      // Nobody waits for one that has ended meanwhile.
      const Json text = {{"point", textOf(point)},
                         {"total", total},
                         {"planned", planned},
                         {"saved", savedStep.value_or(-1)},
                         {"evaluated", evaluatedStep.value_or(-1)}};
      Status status = ranks->tell(rank, dumpJson(text));
      for (const State &state : manifest.state)
        if (status.ok() && state.here)
          status = ranks->send(rank, program->arena().at(state), static_cast<size_t>(state.bytes));
      if (!status.ok())
        return ranks->located(status);
    }
    if (Status status = log->change(true, rank, point.step); !status.ok())
      return status;
    missed[static_cast<size_t>(rank)] = false;
  }
  return {};
}

Status Trainer::noteLosses() {
  for (int rank = 0; rank < static_cast<int>(missed.size()); ++rank)
    if (!ranks->tookPart(rank) && !missed[static_cast<size_t>(rank)]) {
      missed[static_cast<size_t>(rank)] = true;
      if (Status status = log->change(false, rank, point.step); !status.ok())
        return status;
    }
  return {};
}

Status Trainer::enter() {
  if (Status status = transport->enter(); !status.ok())
    return status;
  std::string text;
  if (Status status = ranks->hear(0, text); !status.ok())
    return ranks->located(status);
  const char *what = "what rank 0 tells of the training";
  Result<Json> json = parseJson(text, what);
  if (!json.ok())
    return json.status();
  JsonReader reader(*json, what);
  Result<TrainingPoint> told = pointIn(reader.text("point"));
  total = reader.integer("total");
  planned = reader.integer("planned");
  const int64_t saved = reader.integer("saved"), evaluated = reader.integer("evaluated");
  if (!told.ok() || !reader.status().ok())
    return !told.ok() ? told.status() : reader.status();
  for (const State &state : manifest.state)
    if (state.here)
      if (Status status = ranks->receive(0, program->arena().at(state), static_cast<size_t>(state.bytes)); !status.ok())
        return ranks->located(status);
  Result<Options> merged = withKept(manifest, options, told->flags, resumedFlags);
  if (!merged.ok())
    return merged.status();
  options = std::move(*merged);
  point = std::move(*told);
  if (saved >= 0)
    savedStep = saved;
  if (evaluated >= 0)
    evaluatedStep = evaluated;
  entered = true;
  return {};
}

Status Trainer::together(const Status &mine) {
  if (!ranks || isLate())
    return mine;
  Status status = ranks->agree(mine).status();
  common = !transport->failed();
  return status;
}

Status Trainer::agreeToGoOn(const Status &mine) {
  bool busy = saver && saver->isBusy();
  if (!ranks) {
    stopped = StopSignals::received();
    writing = busy;
    return mine;
  }
  const bool waiting = transport->hasNewcomers(); // at rank 0 alone
  Result<int64_t> most = ranks->agree(mine, 4 * StopSignals::received() + 2 * busy + waiting, true);
  common = !transport->failed();
  if (most.ok()) {
    stopped = static_cast<int>(*most / 4);
    writing = *most / 2 % 2 != 0 || stopped != 0; // it is then unknown whether all have finished
    newcomers = *most % 2 != 0;
  }
  return most.ok() ? noteLosses() : most.status();
}

Status Trainer::compare(int64_t mine, const std::function<Status(int64_t)> &problem) {
  Result<int64_t> most = ranks->maximum(mine);
  if (!most.ok())
    return most.status();
  return together(*most == mine ? Status() : problem(*most));
}

Status Trainer::checkCommand() {
  if (!ranks || isLate())
    return {};
  std::string flags = options.common(), all = concat(std::string_view(code.manifest, code.manifest_bytes), flags);
  auto number = static_cast<int64_t>(std::stoull(fnv1a64(all.data(), all.size()).substr(8), nullptr, 16) >> 1);
  return compare(number, [&](int64_t) {
    return Status::usage(concat("all ranks must be started with the same program and flags; this one has ", flags));
  });
}

Status Trainer::checkAlike() {
  if (!ranks || isLate())
    return {};
  const BatchSource &fed = data ? *data : *evalData;
  Status samples = compare(fed.samples(), [&](int64_t most) {
    return failure(data ? "--data" : "--eval", ": this rank has ", fed.samples(), " samples, and another one ", most,
                   ": all ranks must see the same files");
  });
  if (!samples.ok())
    return samples;
  return compare(point.step, [&](int64_t most) {
    return failure("--resume: this rank finds step ", point.step, " in '", options.checkpoint,
                   "', and another one step ", most, ": all ranks must see the same folder");
  });
}
