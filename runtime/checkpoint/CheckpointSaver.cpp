#include "runtime/checkpoint/CheckpointSaver.h"
#include "runtime/checkpoint/Safetensors.h"
#include "runtime/checkpoint/Shards.h"
#include "runtime/comm/Communicator.h"
#include "runtime/core/BlockSignals.h"
#include "runtime/core/Hash.h"
#include "runtime/core/Json.h"
#include "runtime/core/Launch.h"

#include <algorithm>
#include <atomic>
#include <cstring>

using namespace divisi::runtime;

namespace {
/// A rank's file as a text, which is sent to rank 0.
std::string tell(const CheckpointFile &file) {
  return dumpJson(Json{{"name", file.name}, {"bytes", file.bytes}, {"hashes", file.hashes}});
}

Result<CheckpointFile> hear(const std::string &text) {
  Result<Json> json = parseJson(text, "what a rank tells of its file");
  if (!json.ok())
    return json.status();
  JsonReader reader(*json, "what a rank tells of its file");
  CheckpointFile file{reader.text("name"), reader.integer("bytes"), reader.text("hashes")};
  return reader.status().ok() ? Result<CheckpointFile>(std::move(file)) : reader.status();
}
} // namespace

CheckpointSaver::~CheckpointSaver() {
  if (isActive() && !ranks)
    (void)finish().ok();
  awaited = true;
  if (thread.joinable())
    thread.join();
  if (isActive() && isFirst())
    CheckpointFolder::discard(temporary);
}

bool CheckpointSaver::isFirst() const { return !ranks || ranks->rank() == 0; }

Status CheckpointSaver::agree(const Status &mine) const { return ranks ? ranks->agree(mine).status() : mine; }

Status CheckpointSaver::begin(const TrainingPoint &now, bool waits) {
  point = now;
  Result<std::string> made = isFirst() ? folder.begin(point.step) : Result<std::string>(std::string());
  if (Status status = agree(made.status()); !status.ok())
    return status;
  temporary = *made;
  if (ranks)
    if (Status status = ranks->broadcast(temporary); !status.ok())
      return status;
  phase = Phase::Writing;
  copyState();
  awaited = waits;
  work([this, waits] {
    std::optional<SpareTime> spare; // training has priority
    if (!waits)
      spare.emplace(awaited);
    return writeShards(manifest.processRank, file, spare ? &*spare : nullptr);
  });
  return {};
}

Status CheckpointSaver::writeShards(int64_t rank, CheckpointFile &to, SpareTime *spare) const {
  std::vector<NamedTensor> named;
  for (const Shard &shard : shardsOf(manifest, rank)) {
    auto c =
        std::find_if(tensors.begin(), tensors.end(), [&](const Copied &one) { return one.name == shard.state->name; });
    named.push_back({c->name, c->dtype, c->shape, copy.data() + c->offset, c->bytes});
  }
  to = {};
  if (named.empty())
    return {};
  std::string name = ranks ? concat("state-", rank, ".safetensors") : "state.safetensors";
  ChunkHasher hasher;
  Status status = writeSafetensors(temporary + "/" + name, named, {}, {}, [&](const char *data, size_t bytes) {
    hasher.add(data, bytes);
    if (spare)
      spare->rest();
  });
  int64_t bytes = hasher.bytes();
  to = {name, bytes, std::move(hasher).text()};
  return status;
}

void CheckpointSaver::copyState() {
  tensors.clear();
  size_t end = 0;
  std::vector<Shard> shards = shardsOf(manifest, manifest.processRank);
  for (const Shard &shard : shards) {
    Shape shape = shard.shape();
    auto bytes = static_cast<size_t>(byteCount(shape, widthOf(shard.state->dtype)).value_or(0));
    tensors.push_back({shard.state->name, shard.state->dtype, std::move(shape), end, bytes});
    end += (bytes + 63) / 64 * 64;
  }
  copy.resize(end);
  std::atomic<size_t> next = 0; // shards differ in size: a thread takes one when it has copied its last
  forEachPiece(divisi_team_size(), 1, divisi_team_size(), [&](int64_t, int64_t) {
    for (size_t i = next++; i < shards.size(); i = next++) {
      auto width = static_cast<size_t>(widthOf(shards[i].state->dtype));
      const char *from = arena.at(*shards[i].state);
      char *to = copy.data() + tensors[i].offset;
      shards[i].slice.forEachRun([&](int64_t, int64_t here, int64_t count) {
        size_t bytes = static_cast<size_t>(count) * width;
        std::memcpy(to, from + static_cast<size_t>(here) * width, bytes);
        to += bytes;
      });
    }
  });
}

void CheckpointSaver::work(const std::function<Status()> &job) {
  if (thread.joinable())
    thread.join();
  done.store(false, std::memory_order_relaxed);
  thread = std::thread([this, job] {
    // Signals are handled by the main thread; they must not interrupt a sync.
    blockSignals();
    try {
      written = job();
    } catch (const std::exception &e) {
      written = failure("cannot write a checkpoint: ", e.what());
    }
    done.store(true, std::memory_order_release);
  });
}

Status CheckpointSaver::advance() {
  thread.join();
  if (Status status = agree(written); !status.ok() || phase == Phase::Publishing)
    return end(status);
  phase = Phase::Publishing;
  auto told = ranks ? ranks->gather(tell(file)) : Result<std::vector<std::string>>(std::vector{tell(file)});
  if (!told.ok())
    return end(told.status());
  auto publish = [this, all = std::move(*told)] {
    if (!isFirst())
      return Status();
    std::vector<CheckpointFile> files;
    for (const std::string &text : all) {
      if (text.empty()) { // of a rank that was lost: another one in its place begins with this rank's state
        const auto rank = static_cast<int64_t>(files.size());
        if (Status status = writeShards(rank, files.emplace_back()); !status.ok())
          return status;
        continue;
      }
      Result<CheckpointFile> heard = hear(text);
      if (!heard.ok())
        return heard.status();
      files.push_back(std::move(*heard));
    }
    return folder.commit(temporary, CheckpointManifest::of(manifest, point, std::move(files)));
  };
  work(publish);
  return {};
}

Status CheckpointSaver::end(const Status &status) {
  phase = Phase::Idle;
  if (status.ok())
    saved_ = point.step;
  if (isFirst())
    CheckpointFolder::discard(temporary);
  return status;
}

Status CheckpointSaver::finish() {
  awaited = true;
  while (isActive())
    if (Status status = advance(); !status.ok())
      return status;
  return {};
}

Status divisi::runtime::saveCheckpoint(const CheckpointFolder &folder, const Manifest &manifest, const Arena &arena,
                                       const TrainingPoint &point, Communicator *ranks) {
  CheckpointSaver saver(folder, manifest, arena, ranks);
  Status status = saver.begin(point, true);
  return status.ok() ? saver.finish() : status;
}
