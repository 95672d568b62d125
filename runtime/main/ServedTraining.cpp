//===- ServedTraining.cpp - training steps under parameter servers --------===//
#include "runtime/main/Trainer.h"

#include <algorithm>

using namespace divisi::runtime;

namespace {
/// After so many seconds, and after so many batches, the ranks meet, report, and look at signals.
constexpr double longestRun = 2;
constexpr int64_t leastBatches = 16;
} // namespace

Status Trainer::servedSteps() {
  int64_t begin = point.step, first = begin - point.cursor.batch, epoch = point.cursor.epoch + 1; // first: of the epoch
  auto nextMultiple = [&](int64_t of) { return (begin / of + 1) * of; };
  int64_t end = std::min(total, first + data->fullBatches());
  if (evalData && options.evalEvery > 0)
    end = std::min(end, nextMultiple(options.evalEvery));
  if (checkpoints && options.every > 0)
    end = std::min(end, nextMultiple(options.every));
  ranks->takeUsage();
  common = false;
  int64_t finished = 0;
  Program::Feed feed;
  feed.load = [&](const Share &share) {
    if (manifest.servers->asynchronous)
      data->loadFor(manifest, manifest.workerRank(share.index));
    return data->load(share.batch - first, program->arena().data(), rows);
  };
  feed.rate = [&](int64_t batch) { return rateOf(batch + 1); };
  feed.wants = [&](int64_t batch) { return wantsOf(batch + 1); };
  feed.isEnough = [&] {
    bool late = std::chrono::duration<double>(Clock::now() - stepBegan).count() > longestRun;
    return StopSignals::received() != 0 || (++finished >= leastBatches && late);
  };
  Result<Served> served = program->trainServed(begin, end, feed);
  if (!served.ok())
    return served.status();
  CommUsage usage = ranks->takeUsage();
  usage.bytes /= std::max<int64_t>(1, served->batches);
  for (int64_t i = 0; i < served->batches; ++i) {
    auto at = static_cast<size_t>(i);
    double seconds = std::max(1e-9, served->seconds[at] - (i > 0 ? served->seconds[at - 1] : 0));
    double speed = static_cast<double>(manifest.batch) / seconds;
    Log::Step &line = unreported.emplace_back(Log::Step{begin + i + 1, epoch, {}, rateOf(begin + i + 1), speed, seconds, {}, {}, {}, {}, {}});
    if (sequence > 0)
      line.tokensPerSecond = speed * static_cast<double>(sequence);
    line.comm = usage;
  }
  // In all batches before, each worker's share has made an update.
  int64_t before = begin * manifest.mesh.axes()[static_cast<size_t>(manifest.servers->axis)].size, number = before;
  for (const Served::Push &push : served->pushes)
    if (Status status = log->update({++number, before + push.pulled, push.batch + 1, push.share, push.worker}); !status.ok())
      return status;
  point.step = begin + served->batches;
  int64_t batch = point.step - first;
  point.cursor = batch == data->fullBatches() ? Cursor{epoch, 0} : Cursor{epoch - 1, batch};
  return {};
}
