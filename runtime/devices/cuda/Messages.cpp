#include "runtime/devices/cuda/Messages.h"

using namespace divisi::runtime;
using namespace divisi::runtime::cuda;

namespace {
/// The number of messages in flight to one rank without the hosts' memory.
constexpr size_t slotsOfLink = 4;
} // namespace

Messages::Messages(const Driver &driver, const NcclFunctions &nccl, Stream compute, Communicator &ranks,
                   Exchange &byHost, int64_t freeId)
    : driver(driver), nccl(nccl), compute(compute), ranks(ranks), byHost(byHost), me(ranks.rank()), freeId(freeId) {
  if (std::optional<int64_t> axis = ranks.mesh().stageAxis())
    mine = ranks.mesh().index(me, *axis);
}

Messages::~Messages() {
  std::map<std::pair<int, int>, NcclComm> inOrder; // the same on all ranks
  for (auto &[peer, link] : to)
    inOrder[{me, peer}] = link.comm;
  for (auto &[peer, link] : from)
    inOrder[{peer, me}] = link.comm;
  for (auto &[pair, comm] : inOrder)
    if (comm)
      nccl.destroy(comm);
  for (auto *side : {&to, &from})
    for (auto &[peer, link] : *side) {
      for (Slot &slot : link.slots)
        if (slot.sent)
          driver.destroyEvent(slot.sent);
      if (link.stream)
        driver.destroyStream(link.stream);
    }
  for (auto &[key, flow] : flows) {
    for (Posted &posted : flow.posted)
      spare.push_back(posted.free);
    spare.push_back(flow.done);
  }
  spare.push_back(ready);
  for (Event event : spare)
    if (event)
      driver.destroyEvent(event);
}

void Messages::connect(const Route &route, NcclComm comm) {
  const Mesh &mesh = ranks.mesh();
  bool sends = route.from == me;
  Link &link = sends ? to[route.to] : from[route.from];
  link.stage = mesh.index(sends ? route.to : route.from, *mesh.stageAxis());
  int64_t sender = sends ? mine : link.stage;
  ranks.addName(freeId + sender, concat("the next message of stage ", sender));
  link.comm = comm;
  link.bytes = route.bytes;
  driver.check(driver.createStream(&link.stream, nonBlocking), "create a stream");
  link.word = std::make_unique<PinnedWords>(driver, 1);
  for (size_t i = 0; i < slotsOfLink && sends; ++i)
    link.slots.push_back(
        {std::make_unique<Memory>(driver, static_cast<size_t>(link.bytes), "allocate memory for messages")});
  greet(link, sends);
}

/// Sends or receives a byte, with which NCCL connects the two GPUs. Later a send waits for the receiver's host, which
/// may itself wait in a send in the other direction.
void Messages::greet(Link &link, bool sends) {
  if (sends)
    return nccl.check(nccl.send(link.slots.front().memory->data(), 1, ncclBytes, 1, link.comm, link.stream), "send");
  link.greeting = std::make_unique<Memory>(driver, 1, "allocate memory for messages");
  nccl.check(nccl.receive(link.greeting->data(), 1, ncclBytes, 0, link.comm, link.stream), "receive");
}

void Messages::expect(const DivisiTransfer &params, int64_t times, int function) {
  std::optional<int> peer = ranks.peerOf(params.stage);
  if (peer && (*peer == me || from.count(*peer) > 0))
    expected[{function, *peer}][params.id] +=
        MessagePool::roundUp(static_cast<size_t>(params.bytes)) * static_cast<size_t>(times);
}

/// While a message is awaited, none of its id has come early: all others of its sender may have.
void Messages::reserve() {
  std::map<int, size_t> needed;
  for (const auto &[key, ids] : expected) {
    size_t total = 0, least = SIZE_MAX;
    for (const auto &[id, bytes] : ids) {
      total += bytes;
      least = std::min(least, bytes);
    }
    int peer = key.second;
    needed[peer] = std::max(needed[peer], peer == me ? total : total - least);
  }
  for (auto [peer, bytes] : needed)
    (peer == me ? own : from.at(peer).early).reserve(driver, bytes);
}

std::vector<NcclComm *> Messages::communicators() {
  std::vector<NcclComm *> result;
  for (auto *side : {&to, &from})
    for (auto &[peer, link] : *side)
      result.push_back(&link.comm);
  return result;
}

std::vector<Stream> Messages::streams() const {
  std::vector<Stream> result;
  for (const auto *side : {&to, &from})
    for (const auto &[peer, link] : *side)
      result.push_back(link.stream);
  return result;
}

std::optional<int64_t> Messages::underWay() const {
  for (const auto *side : {&from, &to}) // receives first: the longest waits are for other ranks
    for (const auto &[peer, link] : *side)
      if (unsigned number = link.word->read(0))
        return number - 1;
  return std::nullopt;
}

Event Messages::newEvent() {
  Event event = nullptr;
  if (!spare.empty()) {
    event = spare.back();
    spare.pop_back();
  } else {
    driver.check(driver.createEvent(&event, untimed), "create an event");
  }
  return event;
}

/// Makes a stream wait for all current work of another one.
void Messages::follow(Stream stream, Event &event, Stream after) {
  if (!event)
    event = newEvent();
  driver.check(driver.recordEvent(event, after), "record an event");
  driver.check(driver.waitEvent(stream, event, 0), "wait for an event");
}

void Messages::note(Link &link, int64_t number) {
  driver.check(driver.fillWords(link.word->address(0), static_cast<unsigned>(number), 1, link.stream), "note progress");
}

void Messages::markDone(Flow &flow, Stream stream) {
  if (!flow.done)
    flow.done = newEvent();
  driver.check(driver.recordEvent(flow.done, stream), "record an event");
  flow.onGpu = true;
}

Messages::Slot *Messages::freeSlot(Link &link) {
  for (Slot &slot : link.slots) {
    int code = slot.sent ? driver.queryEvent(slot.sent) : 0;
    if (code == 0)
      return &slot;
    if (code != notReady)
      driver.check(code, "send a message");
  }
  return nullptr;
}

Status Messages::send(const DivisiTransfer &params, const void *data) {
  int peer = ranks.peerOf(params.stage).value();
  if (peer == me)
    return sendToMyself(params, data);
  if (to.count(peer) == 0)
    return byHost.send(params, data);
  Link &link = to.at(peer);
  Slot *slot = params.bytes <= link.bytes ? freeSlot(link) : nullptr;
  Header header{params.id, params.bytes, slot ? 0 : 1};
  if (Status status = ranks.send({freeId + mine, params.stage, sizeof header, 0}, &header); !status.ok())
    return status;
  if (!slot)
    return byHost.send(params, data);
  if (!slot->sent)
    slot->sent = newEvent();
  copyOnDevice(driver, slot->memory->data(), data, params.bytes, compute);
  follow(link.stream, ready, compute);
  note(link, params.id + 1);
  size_t begin = recorder ? marks->add(link.stream) : 0;
  if (params.bytes > 0)
    nccl.check(nccl.send(slot->memory->data(), static_cast<size_t>(params.bytes), ncclBytes, 1, link.comm, link.stream),
               "send");
  if (recorder)
    recorder->addMarkedSend(begin, marks->add(link.stream), params.id);
  note(link, 0);
  driver.check(driver.recordEvent(slot->sent, link.stream), "record an event");
  return {};
}

/// The whole transfer runs on the compute stream, in the order of the calls.
Status Messages::sendToMyself(const DivisiTransfer &params, const void *data) {
  Flow &flow = flows[{params.id, me}];
  if (flow.posted.empty()) {
    char *memory = own.take(driver, static_cast<size_t>(params.bytes));
    copyOnDevice(driver, memory, data, params.bytes, compute);
    flow.arrived.push_back({memory, params.bytes});
    return {};
  }
  Posted posted = flow.posted.front();
  flow.posted.pop_front();
  if (posted.bytes != params.bytes)
    return failure(ranks.nameOf(params.id), ": the sides disagree on its size");
  copyOnDevice(driver, posted.data, data, params.bytes, compute);
  return {};
}

Status Messages::receive(const DivisiTransfer &params, void *data) {
  int peer = ranks.peerOf(params.stage).value();
  Flow &flow = flows[{params.id, peer}];
  if (peer != me && from.count(peer) == 0) {
    flow.onHost = true;
    return byHost.receive(params, data);
  }
  if (flow.arrived.empty()) {
    Posted posted{data, params.bytes, nullptr};
    if (peer != me) {
      posted.free = newEvent();
      driver.check(driver.recordEvent(posted.free, compute), "record an event");
    }
    flow.posted.push_back(posted);
    return {};
  }
  Arrived arrived = flow.arrived.front();
  flow.arrived.pop_front();
  if (arrived.bytes != params.bytes)
    return failure(ranks.nameOf(params.id), ": the sides disagree on its size");
  if (!arrived.data && params.bytes > 0) {
    flow.onHost = true;
    return byHost.receive(params, data);
  }
  if (peer == me) {
    copyOnDevice(driver, data, arrived.data, params.bytes, compute);
    own.give(arrived.data);
    return {};
  }
  Link &link = from.at(peer);
  follow(link.stream, ready, compute);
  copyOnDevice(driver, data, arrived.data, params.bytes, link.stream);
  link.early.give(arrived.data);
  markDone(flow, link.stream);
  return {};
}

/// Posts NCCL's receive for a header.
void Messages::take(Link &link, const Header &header, void *data) {
  note(link, header.id + 1);
  size_t begin = recorder ? marks->add(link.stream) : 0;
  if (header.bytes > 0)
    nccl.check(nccl.receive(data, static_cast<size_t>(header.bytes), ncclBytes, 0, link.comm, link.stream), "receive");
  if (recorder)
    recorder->addMarked(begin, marks->add(link.stream), header.id);
  note(link, 0);
}

/// Receives the next message of a rank, whatever its id.
Status Messages::next(int peer, Link &link) {
  Header header;
  if (Status status = ranks.receive({freeId + link.stage, link.stage, sizeof header, 0}, &header); !status.ok())
    return status;
  if (Status status = ranks.await(freeId + link.stage); !status.ok())
    return status;
  Flow &flow = flows[{header.id, peer}];
  if (flow.posted.empty()) {
    char *memory = nullptr;
    if (!header.byHost && header.bytes > link.bytes)
      return failure(ranks.nameOf(header.id), ": is larger than messages from there are");
    if (!header.byHost) {
      memory = link.early.take(driver, static_cast<size_t>(header.bytes));
      take(link, header, memory);
    }
    flow.arrived.push_back({memory, header.bytes});
    return {};
  }
  Posted posted = flow.posted.front();
  flow.posted.pop_front();
  spare.push_back(posted.free);
  if (posted.bytes != header.bytes)
    return failure(ranks.nameOf(header.id), ": the sides disagree on its size");
  if (header.byHost) {
    flow.onHost = true;
    return byHost.receive({header.id, link.stage, header.bytes, 0}, posted.data);
  }
  driver.check(driver.waitEvent(link.stream, posted.free, 0), "wait for an event");
  take(link, header, posted.data);
  markDone(flow, link.stream);
  return {};
}

Status Messages::await(int64_t id) {
  for (auto it = flows.lower_bound({id, 0}); it != flows.end() && it->first.first == id; ++it)
    if (Status status = await(it->first.second, it->second, id); !status.ok())
      return status;
  return {};
}

Status Messages::await(int peer, Flow &flow, int64_t id) {
  while (!flow.posted.empty()) {
    if (peer == me)
      return failure(ranks.nameOf(id), ": this rank waits for what it has not sent");
    if (Status status = next(peer, from.at(peer)); !status.ok())
      return status;
  }
  if (std::exchange(flow.onHost, false))
    if (Status status = byHost.await(id); !status.ok())
      return status;
  if (std::exchange(flow.onGpu, false))
    driver.check(driver.waitEvent(compute, flow.done, 0), "wait for an event");
  return {};
}
