#include "runtime/comm/Staging.h"

using namespace divisi::runtime;

uint64_t Staging::offsetOf(const void *address) const {
  return static_cast<uint64_t>(static_cast<const char *>(address) - device.arena());
}

char *Staging::fetch(const void *address, size_t bytes) {
  uint64_t offset = offsetOf(address);
  device.download(offset, host + offset, bytes);
  return host + offset;
}

Status Staging::start(const DivisiCollective *params, void *const *buffers) {
  device.keepFromRecording();
  Result<const Collective *> plan = ranks.planOf(params);
  if (!plan.ok())
    return plan.status();
  std::vector<size_t> sizes = (*plan)->sizes();
  std::vector<void *> here;
  auto parts = static_cast<size_t>(params->part_count);
  for (size_t i = 0; i < parts; ++i)
    here.push_back(fetch(buffers[i], sizes[i]));
  for (size_t i = parts; i < 2 * parts; ++i) {
    uint64_t offset = offsetOf(buffers[i]);
    here.push_back(host + offset);
    arriving[params->id].push_back({offset, sizes[i]});
  }
  return ranks.start(params, here.data());
}

Status Staging::send(const DivisiTransfer &params, const void *data) {
  device.keepFromRecording();
  return ranks.send(params, fetch(data, static_cast<size_t>(params.bytes)));
}

Status Staging::receive(const DivisiTransfer &params, void *data) {
  device.keepFromRecording();
  uint64_t offset = offsetOf(data);
  arriving[params.id].push_back({offset, static_cast<size_t>(params.bytes)});
  return ranks.receive(params, host + offset);
}

Status Staging::await(int64_t id) {
  device.keepFromRecording();
  if (Status status = ranks.await(id); !status.ok())
    return status;
  for (const Piece &piece : arriving[id])
    device.upload(piece.offset, host + piece.offset, piece.bytes);
  arriving.erase(id);
  return {};
}
