//===- Transfers.cpp - messages between stages beside all else ------------===//
#include "runtime/comm/Communicator.h"

#include <algorithm>
#include <cstring>

using namespace divisi::runtime;

Status Communicator::send(const DivisiTransfer &params, const void *data) {
  if (Status status = check(params); !status.ok())
    return status;
  if (isPlain(params)) {
    Transfer transfer = sendingOf(params, plainPeer(params.stage), params.bytes);
    if (params.bytes > 0)
      std::memcpy(transfer.data, data, transfer.bytes);
    begin(std::move(transfer));
    return {};
  }
  return inPieces(params, true, [&](const Piece &piece) {
    Transfer transfer = sendingOf(params, piece.peer, piece.bytes);
    piece.pack(static_cast<const char *>(data), transfer.data);
    return transfer;
  });
}

Communicator::Transfer Communicator::sendingOf(const DivisiTransfer &params, int peer, int64_t bytes) {
  Transfer transfer{.id = params.id, .sends = true, .peer = peer, .bytes = static_cast<size_t>(bytes)};
  transfer.copy = takeCopy(transfer.bytes);
  transfer.data = transfer.copy.reserve(transfer.bytes);
  return transfer;
}

/// Begins a transfer for each piece of a message.
template <typename Make> Status Communicator::inPieces(const DivisiTransfer &params, bool sends, const Make &make) {
  Result<const std::vector<Piece> *> pieces = piecesOf(params, sends);
  if (!pieces.ok())
    return pieces.status();
  if ((*pieces)->empty()) // other ranks of this stage send all of it
    begin({.id = params.id, .sends = sends, .peer = rank()});
  std::shared_ptr<Whole> whole;
  if ((*pieces)->size() > 1)
    whole = std::make_shared<Whole>(Whole{(*pieces)->size()});
  for (const Piece &piece : **pieces) {
    Transfer transfer = make(piece);
    transfer.whole = whole;
    begin(std::move(transfer));
  }
  return {};
}

/// The smallest free memory that is large enough, or new memory.
Scratch Communicator::takeCopy(size_t bytes) {
  std::lock_guard lock(mutex);
  auto fits = copies.end();
  for (auto it = copies.begin(); it != copies.end(); ++it)
    if (it->size() >= bytes && (fits == copies.end() || it->size() < fits->size()))
      fits = it;
  if (fits == copies.end())
    return {};
  Scratch copy = std::move(*fits);
  copies.erase(fits);
  return copy;
}

Status Communicator::receive(const DivisiTransfer &params, void *data) {
  if (Status status = check(params); !status.ok())
    return status;
  auto *target = static_cast<char *>(data);
  auto bytes = static_cast<size_t>(params.bytes);
  if (isPlain(params)) {
    begin({.id = params.id, .peer = plainPeer(params.stage), .data = target, .bytes = bytes});
    return {};
  }
  return inPieces(params, false, [&](const Piece &piece) {
    Transfer transfer{.id = params.id, .peer = piece.peer, .bytes = static_cast<size_t>(piece.bytes)};
    if (piece.isContiguous()) {
      transfer.data = target + piece.offset;
    } else {
      transfer.piece = &piece;
      transfer.target = target;
      transfer.copy = takeCopy(transfer.bytes);
      transfer.data = transfer.copy.reserve(transfer.bytes);
    }
    return transfer;
  });
}

Result<const std::vector<Piece> *> Communicator::piecesOf(const DivisiTransfer &params, bool sent) {
  auto &known = sent ? sentPieces : receivedPieces;
  auto it = known.find(&params);
  if (it == known.end()) {
    auto pieces = sent ? Piece::sentBy(rank(), params, mesh_) : Piece::receivedBy(rank(), params, mesh_);
    if (!pieces.ok())
      return failure(place(), nameOf(params.id), ": ", pieces.status().message());
    it = known.emplace(&params, std::move(*pieces)).first;
  }
  return &it->second;
}

Status Communicator::check(const DivisiTransfer &params) const {
  if (transport.failed())
    return transport.status();
  if (mesh_.size() > size())
    return failure(place(), "the mesh has ", mesh_.size(), " ranks, but there are ", size());
  std::optional<int64_t> axis = mesh_.stageAxis();
  int64_t stages = axis ? mesh_.axes()[static_cast<size_t>(*axis)].size : 1;
  if (params.stage < 0 || params.stage >= stages || params.bytes < 0 || params.dim_count < 0)
    return failure(place(), nameOf(params.id), ": has parameters out of their ranges");
  if (params.id < 0 || params.id >= transport.largestTag())
    return failure(place(), nameOf(params.id), ": has a number that no message can have: the largest is ",
                   transport.largestTag() - 1);
  return {};
}

void Communicator::begin(Transfer transfer) {
  Flow &flow = (transfer.sends ? sendFlows : flows)[transfer.id];
  transfer.flow = &flow;
  {
    std::lock_guard lock(mutex);
    if (transfer.sends && transfer.peer != rank())
      usage.bytes += static_cast<int64_t>(transfer.bytes);
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
  if (t.piece && !transport.failed())
    t.piece->unpack(t.data, t.target);
  double first = t.begin;
  if (t.whole) // the span of a message is that of all its pieces
    first = t.whole->begin = t.whole->begin > 0 ? std::min(t.whole->begin, first) : first;
  if (recorder && !(t.whole && --t.whole->open > 0)) {
    double now = recorder->now();
    Recorder::Span span{t.bytes > 0 ? first : now, now};
    t.sends ? recorder->addSend(t.id, span) : recorder->addCollective(t.id, span);
  }
  std::lock_guard lock(mutex);
  if (t.sends || t.piece)
    copies.push_back(std::move(t.copy));
  settle(*t.flow);
  t.flow = nullptr;
}
