//===- Transfers.cpp - messages between stages beside all else ------------===//
#include "runtime/comm/Communicator.h"

#include <algorithm>
#include <cstring>

using namespace divisi::runtime;

Status Communicator::send(const DivisiTransfer &params, const void *data) {
  if (Status status = check(params); !status.ok())
    return status;
  // None if another rank of this stage sends the message.
  const std::vector<int> peers = turn >= 0 ? std::vector{mesh_.inTurn(rank(), params.stage, turn)}
                                           : mesh_.receiversOf(rank(), params.stage);
  for (int peer : peers)
    sendTo(peer, params, data);
  return {};
}

void Communicator::sendTo(int peer, const DivisiTransfer &params, const void *data) {
  Transfer transfer;
  transfer.sends = true;
  transfer.peer = peer;
  auto bytes = static_cast<size_t>(params.bytes);
  {
    // Takes the smallest free memory that is large enough.
    std::lock_guard lock(mutex);
    auto fits = copies.end();
    for (auto it = copies.begin(); it != copies.end(); ++it)
      if (it->size() >= bytes && (fits == copies.end() || it->size() < fits->size()))
        fits = it;
    if (fits != copies.end()) {
      transfer.copy = std::move(*fits);
      copies.erase(fits);
    }
  }
  transfer.data = transfer.copy.reserve(bytes);
  if (bytes > 0)
    std::memcpy(transfer.data, data, bytes);
  begin(params, std::move(transfer));
}

Status Communicator::receive(const DivisiTransfer &params, void *data) {
  if (Status status = check(params); !status.ok())
    return status;
  Transfer transfer;
  transfer.peer = turn >= 0 ? mesh_.inTurn(rank(), params.stage, turn) : mesh_.inStage(rank(), params.stage);
  transfer.data = static_cast<char *>(data);
  begin(params, std::move(transfer));
  return {};
}

Status Communicator::check(const DivisiTransfer &params) const {
  if (transport.failed())
    return transport.status();
  if (mesh_.size() != size())
    return failure(place(), "the mesh has ", mesh_.size(), " ranks, but there are ", size());
  std::optional<int64_t> axis = mesh_.stageAxis();
  int64_t stages = axis ? mesh_.axes()[static_cast<size_t>(*axis)].size : 1;
  if (params.stage < 0 || params.stage >= stages || params.bytes < 0)
    return failure(place(), nameOf(params.id), ": has parameters out of their ranges");
  if (params.id < 0 || params.id >= transport.largestTag())
    return failure(place(), nameOf(params.id), ": has a number that no message can have: the largest is ",
                   transport.largestTag() - 1);
  return {};
}

void Communicator::begin(const DivisiTransfer &params, Transfer transfer) {
  transfer.id = params.id;
  transfer.bytes = static_cast<size_t>(params.bytes);
  Flow &flow = (transfer.sends ? sendFlows : flows)[params.id];
  transfer.flow = &flow;
  {
    std::lock_guard lock(mutex);
    if (transfer.sends && transfer.peer != rank())
      usage.bytes += params.bytes;
    posted.push_back(std::move(transfer));
    flow.started += 1;
    flow.number = ++started;
  }
  begun.notify_one();
}

/// Starts posted transfers and polls those in progress; after a failure it ends all. Runs on the communication thread.
void Communicator::progress() {
  {
    std::lock_guard lock(mutex);
    std::move(posted.begin(), posted.end(), std::back_inserter(moving));
    posted.clear();
  }
  bool failed = transport.failed();
  for (Transfer &t : moving) {
    if (!t.message && !failed && t.bytes > 0) {
      t.begin = recorder ? recorder->now() : 0;
      auto tag = static_cast<int>(t.id + 1);
      t.message =
          t.sends ? transport.send(t.peer, tag, t.data, t.bytes) : transport.receive(t.peer, tag, t.data, t.bytes);
    }
    if (failed || t.bytes == 0 || t.message->poll())
      complete(t);
  }
  std::erase_if(moving, [](const Transfer &t) { return !t.flow; });
}

void Communicator::complete(Transfer &t) {
  t.message.reset();
  if (recorder) {
    double now = recorder->now();
    Recorder::Span span{t.bytes > 0 ? t.begin : now, now};
    t.sends ? recorder->addSend(t.id, span) : recorder->addCollective(t.id, span);
  }
  std::lock_guard lock(mutex);
  if (t.sends)
    copies.push_back(std::move(t.copy));
  settle(*t.flow);
  t.flow = nullptr;
}
