//===- FreeSteps.cpp - training steps whose shares are dealt --------------===//
#include "runtime/main/Trainer.h"

#include <algorithm>

using namespace divisi::runtime;

namespace {
/// After this number of seconds, and of batches, the ranks meet, report, and look at signals.
constexpr double longestRun = 2;
constexpr int64_t leastBatches = 16;
} // namespace

int64_t Trainer::finishedUpdates() const {
  // A program that counts its updates also counts those of other numbers of workers, before the job was resumed.
  const int64_t workers = manifest.mesh.axes()[static_cast<size_t>(manifest.shareAxis())].size;
  return program->step().value_or(point.step * workers);
}

Status Trainer::freeSteps() {
  int64_t begin = point.step, first = begin - point.cursor.batch, epoch = point.cursor.epoch + 1; // first: of the epoch
  auto nextMultiple = [&](int64_t of) { return (begin / of + 1) * of; };
  int64_t end = std::min(total, first + data->fullBatches());
  if (evalData && options.evalEvery > 0)
    end = std::min(end, nextMultiple(options.evalEvery));
  if (checkpoints && options.every > 0)
    end = std::min(end, nextMultiple(options.every));
  const int64_t before = finishedUpdates();
  ranks->takeUsage();
  common = false;
  int64_t finished = 0;
  Program::Feed feed;
  feed.updatesBefore = point.updatesBefore;
  feed.load = [&](const Share &share) {
    delay();
    ranks->setStep(share.batch + 1);
    if (!manifest.servers || manifest.servers->asynchronous)
      data->loadFor(manifest, manifest.workerRank(share.index));
    return program->load(*data, share.batch - first, rows);
  };
  feed.rate = [&](int64_t batch) { return rateOf(batch + 1); };
  feed.wants = [&](int64_t batch) { return wantsOf(batch + 1, data->endsEpoch(batch - first)); };
  feed.isEnough = [&] {
    bool late = std::chrono::duration<double>(Clock::now() - stepBegan).count() > longestRun;
    return ++finished >= leastBatches && late;
  };
  feed.isAskedToStop = [] { return StopSignals::received() != 0; };
  Result<FreeRun> run = program->trainFreely(begin, end, feed);
  if (!run.ok())
    return run.status();
  CommUsage usage = ranks->takeUsage();
  // Shares of several batches are in progress at once: each step of the run has the mean.
  const auto count = static_cast<double>(std::max<int64_t>(1, run->batches));
  usage = {usage.bytes / std::max<int64_t>(1, run->batches), usage.seconds / count, usage.waited / count};
  const double seconds = std::max(1e-9, std::chrono::duration<double>(Clock::now() - stepBegan).count() / count);
  for (int64_t step = begin; step < begin + run->batches; ++step)
    addLine(step + 1, seconds, data->endsEpoch(step - first)).comm = usage;
  int64_t number = before;
  for (const FreeRun::Push &push : run->pushes)
    if (Status status = log->update({++number, before + push.pulled, push.batch + 1, push.share, push.worker}); !status.ok())
      return status;
  if (const auto *events = program->gossipEvents())
    for (size_t replica = 0; replica < events->size(); ++replica)
      for (const AsynchronousGossip::Event &event : (*events)[replica])
        if (Status status = log->gossip(static_cast<int64_t>(replica), event); !status.ok())
          return status;
  point.step = begin + run->batches;
  if (Status status = program->meetReplicas(point.step, point.step == total); !status.ok())
    return status;
  int64_t batch = point.step - first;
  point.cursor = batch == data->fullBatches() ? Cursor{epoch, 0} : Cursor{epoch - 1, batch};
  return {};
}
