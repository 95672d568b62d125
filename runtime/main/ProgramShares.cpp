//===- ProgramShares.cpp - programs whose ranks compute shares of batches -===//
#include "runtime/main/Program.h"

#include <algorithm>
#include <cmath>

using namespace divisi::runtime;

Status Program::evaluateShare(int64_t share, int64_t rows, uint32_t wants, const std::vector<bool> &absent) {
  const int64_t axis = description.shareAxis();
  const Tensor *replica = description.scalar("axis_index." + description.mesh.axes()[static_cast<size_t>(axis)].name);
  setInteger(replica, share);
  ranks->leaveOut(absent);
  Status status = run("evaluate", rows, wants, {});
  ranks->leaveOut({});
  setInteger(replica, description.mesh.index(description.rank, axis));
  return status;
}

Status Program::setEvaluation(std::vector<double> values, uint32_t wants) {
  wanted = wants;
  numbers = std::move(values);
  return tellFrom(0, numbers, "evaluate");
}

std::optional<int64_t> Program::serverOf(const Row &row) const {
  const std::vector<Servers::Update> &all = description.updates();
  auto of =
      std::find_if(all.begin(), all.end(), [&](const Servers::Update &update) { return update.task == row.task; });
  return of == all.end() ? std::nullopt : std::optional(of - all.begin());
}

bool Program::isOwn(const Row &row) const { return !description.servers || serverOf(row) == description.server; }

Status Program::runShare() {
  const Table *table = description.table("train");
  if (!table)
    return failure("the program has no function 'train'");
  if (Status status = pushInputs(); !status.ok())
    return status;
  runRows(*table, [&](const Row &row) { return isOwn(row); });
  if (context.failed())
    return context.error;
  Status status = ranks->finish();
  return status.ok() ? pullResults("train") : status;
}

DeviceCopies Program::deviceCopies() {
  return {[this](int64_t offset, int64_t bytes) {
            return withAccelerator([&](Accelerator &to) { to.upload(static_cast<uint64_t>(offset), memory.data() + offset, static_cast<size_t>(bytes)); });
          },
          [this](int64_t offset, int64_t bytes) {
            return withAccelerator([&](Accelerator &from) { from.download(static_cast<uint64_t>(offset), memory.data() + offset, static_cast<size_t>(bytes)); });
          }};
}

bool Program::isUnsound(const std::vector<double> &results) const {
  for (size_t i = 0; i < results.size(); ++i) {
    const Output &output = description.results[i];
    if (output.function == "train" && ((output.kind == "loss" && !std::isfinite(results[i])) ||
                                       (output.kind == "index" && !output.isInRange(results[i]))))
      return true;
  }
  return false;
}

Result<FreeRun> Program::trainFreely(int64_t begin, int64_t end, const Feed &feed) {
  const int64_t axis = description.shareAxis();
  const Tensor *replica = description.scalar("axis_index." + description.mesh.axes()[static_cast<size_t>(axis)].name);
  auto setStep = [&](int64_t number) {
    const State *step = description.stateOf(Role::Step);
    setInteger(step, feed.updatesBefore + number);
    return step ? withAccelerator([&](Accelerator &to) { push(to, *step); }) : Status();
  };
  auto prepare = [&](int64_t batch) {
    context.wants = wanted = feed.wants(batch);
    setInteger(description.scalar("rows"), description.batch);
  };
  FreeWork work;
  work.compute = [&](const Share &share) {
    if (Status status = feed.load(share); !status.ok())
      return status;
    prepare(share.batch);
    if (Status status = setStep(share.batch); !status.ok()) // for random numbers: a worker counts no updates
      return status;
    if (gossip || description.servers->asynchronous) // on any worker, they are those of the share's rows in the batch
      setInteger(replica, share.index);
    if (gossip)
      setLearningRate(feed.rate(share.batch));
    return runShare();
  };
  work.update = [&](int64_t batch) {
    prepare(batch);
    setLearningRate(feed.rate(batch));
    return runShare();
  };
  work.results = [&] { return ownResults("train"); };
  work.isAskedToStop = feed.isAskedToStop;
  work.isEnough = [&](const std::vector<double> &results) { return isUnsound(results) || feed.isEnough(); };
  Result<FreeRun> all = gossip ? gossip->run(begin, end, work) : served->run(begin, end, work);
  if (!all.ok())
    return all;
  setInteger(replica, description.mesh.index(description.rank, axis));
  if (gossip)
    if (Status status = setStep(begin + all->batches); !status.ok())
      return status;
  for (int64_t batch = 0; batch < all->batches; ++batch) {
    auto from = all->results.begin() + batch * static_cast<int64_t>(numbers.size());
    ours.emplace_back(from, from + static_cast<int64_t>(numbers.size()));
    wants.push_back(feed.wants(begin + batch));
  }
  return all;
}
