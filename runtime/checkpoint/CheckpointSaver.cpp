#include "runtime/checkpoint/CheckpointSaver.h"
#include "runtime/checkpoint/Safetensors.h"
#include "runtime/checkpoint/Shards.h"
#include "runtime/comm/Communicator.h"
#include "runtime/core/BlockSignals.h"
#include "runtime/core/Hash.h"
#include "runtime/core/Json.h"
#include "runtime/core/Launch.h"
#include "runtime/core/SpareTime.h"

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

Status guarded(const std::function<Status()> &job) {
  try {
    return job();
  } catch (const std::exception &e) {
    return failure("cannot write a checkpoint: ", e.what());
  }
}
} // namespace

struct CheckpointSaver::ShardFile {
  ShardFile(std::string name, const std::string &path, std::vector<NamedTensor> tensors)
      : name(std::move(name)), writer(path, std::move(tensors), {}, {}, &hasher) {}
  /// Writes what is left.
  Status finish(CheckpointFile &to) {
    while (writer.writeMore())
      ;
    const int64_t bytes = hasher.bytes();
    to = {name, bytes, std::move(hasher).text()};
    return writer.commit();
  }

  std::string name;
  ChunkHasher hasher;
  SafetensorsWriter writer;
};

CheckpointSaver::CheckpointSaver(const CheckpointFolder &folder, const Manifest &manifest, const Arena &arena,
                                 Communicator *ranks)
    : folder(folder), manifest(manifest), arena(arena), ranks(ranks) {}

CheckpointSaver::~CheckpointSaver() {
  if (isActive() && !ranks && thread.joinable())
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
  file = {};
  work([this, waits] {
    shards = shardsOfRank(manifest.processRank);
    return waits ? write() : writeInSpareTime();
  });
  return {};
}

Status CheckpointSaver::write() {
  if (!shards)
    return {};
  Status status = shards->finish(file);
  shards.reset();
  return status;
}

Status CheckpointSaver::writeInSpareTime() {
  SpareTime spare(awaited, ranks ? ranks->size() : 1);
  while (shards && shards->writer.writeMore()) {
    if (awaited)
      return {};
    spare.rest();
  }
  return write();
}

std::unique_ptr<CheckpointSaver::ShardFile> CheckpointSaver::shardsOfRank(int64_t rank) const {
  std::vector<NamedTensor> named;
  for (const Shard &shard : shardsOf(manifest, rank)) {
    auto c =
        std::find_if(tensors.begin(), tensors.end(), [&](const Copied &one) { return one.name == shard.state->name; });
    named.push_back({c->name, c->dtype, c->shape, copy.data() + c->offset, c->bytes});
  }
  if (named.empty())
    return nullptr;
  std::string name = ranks ? concat("state-", rank, ".safetensors") : "state.safetensors";
  std::string path = temporary + "/" + name;
  return std::make_unique<ShardFile>(std::move(name), path, std::move(named));
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
    written = guarded(job);
    done.store(true, std::memory_order_release);
  });
}

Status CheckpointSaver::advance() {
  thread.join();
  if (shards && written.ok()) // somebody waits: the thread may not get to run on a machine that other programs keep busy
    written = guarded([this] { return write(); });
  shards.reset();
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
        std::unique_ptr<ShardFile> lost = shardsOfRank(static_cast<int64_t>(files.size()));
        CheckpointFile &written = files.emplace_back();
        if (Status status = lost ? lost->finish(written) : Status(); !status.ok())
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
