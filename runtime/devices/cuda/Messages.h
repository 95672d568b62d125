//===- Messages.h - messages between stages by NCCL -------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DEVICES_CUDA_MESSAGES_H
#define DIVISI_RUNTIME_DEVICES_CUDA_MESSAGES_H

#include "runtime/comm/Communicator.h"
#include "runtime/core/Routes.h"
#include "runtime/devices/cuda/Marks.h"
#include "runtime/devices/cuda/Memory.h"
#include "runtime/devices/cuda/MessagePool.h"
#include "runtime/devices/cuda/NcclFunctions.h"

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <vector>

namespace divisi::runtime::cuda {

/// Messages between GPUs. Each direction between two ranks has its own communicator and stream. NCCL matches sends and
/// receives in order, but messages of different ids are independent. Therefore each send announces the message to the
/// other host, and the receiver posts NCCL's receives in that order when it must wait for one of them. If all buffers
/// for sends are in use, a message is sent through the hosts, as are those between ranks that are not connected.
class Messages {
public:
  /// Ids from `freeId` on are unused.
  Messages(const Driver &driver, const NcclFunctions &nccl, Stream compute, Communicator &ranks, Exchange &byHost,
           int64_t freeId);
  ~Messages();
  Messages(const Messages &) = delete;
  Messages &operator=(const Messages &) = delete;

  /// Adds a communicator of two ranks, one of which is this one; its first rank sends. Throws std::runtime_error.
  void connect(const Route &route, NcclComm comm);

  /// Whether a message of this id was received here.
  bool carries(int64_t id) const { return firstOf(id) != flows.end(); }
  /// As in Exchange, if one rank of the other stage is the peer; throw std::runtime_error if the driver or NCCL fails.
  Status send(const DivisiTransfer &params, const void *data);
  Status receive(const DivisiTransfer &params, void *data);
  Status await(int64_t id);

  /// This rank receives a message `times` times in a run of a function.
  void expect(const DivisiTransfer &params, int64_t times, int function);
  /// Allocates memory for expected messages that may arrive before they are requested.
  void reserve();

  void setRecorder(Recorder *to, Marks *on) {
    recorder = to;
    marks = on;
  }
  /// Pointers to the communicators, which must be reset after a failure.
  std::vector<NcclComm *> communicators();
  std::vector<Stream> streams() const;
  /// The id of a message in progress, if there is one.
  std::optional<int64_t> underWay() const;

private:
  /// A buffer from which a message is sent.
  struct Slot {
    std::unique_ptr<Memory> memory;
    Event sent = nullptr; ///< null: not used yet
  };
  struct Link {
    int64_t stage = 0; ///< of the other side
    NcclComm comm = nullptr;
    Stream stream = nullptr;
    int64_t bytes = 0; ///< of a slot
    std::vector<Slot> slots;
    MessagePool early;                 ///< for messages that arrive before they are requested
    std::unique_ptr<Memory> greeting;  ///< of a receiver
    std::unique_ptr<PinnedWords> word; ///< 1 + the id of the message in progress; 0: none
  };
  /// The announcement of a message, from the sender's host to the receiver's.
  struct Header {
    int64_t id = 0, bytes = 0, byHost = 0;
  };
  struct Posted {
    void *data = nullptr;
    int64_t bytes = 0;
    Event free = nullptr; ///< when the buffer may be written
  };
  /// A message that arrived before it was requested.
  struct Arrived {
    char *data = nullptr; ///< null: it is sent through the hosts
    int64_t bytes = 0;
  };
  /// The messages of one id from one rank.
  struct Flow {
    std::deque<Posted> posted;
    std::deque<Arrived> arrived;
    Event done = nullptr;
    bool onGpu = false, onHost = false; ///< a message is in progress there
  };

  using Flows = std::map<std::pair<int64_t, int>, Flow>; ///< by id and sender
  Flows::const_iterator firstOf(int64_t id) const {
    auto first = flows.lower_bound({id, 0});
    return first != flows.end() && first->first.first == id ? first : flows.end();
  }

  void greet(Link &link, bool sends);
  Slot *freeSlot(Link &link);
  Status sendToMyself(const DivisiTransfer &params, const void *data);
  Status next(int peer, Link &link);
  Status await(int peer, Flow &flow, int64_t id);
  void take(Link &link, const Header &header, void *data);
  void markDone(Flow &flow, Stream stream);
  void follow(Stream stream, Event &event, Stream after);
  void note(Link &link, int64_t number);
  Event newEvent();

  const Driver &driver;
  const NcclFunctions &nccl;
  Stream compute;
  Communicator &ranks;
  Exchange &byHost;
  int me;                       ///< this rank; the communicator ends before the messages
  int64_t freeId, mine = 0;     ///< stage
  std::map<int, Link> to, from; ///< by the other rank
  Flows flows;
  std::vector<Event> spare;
  Event ready = nullptr;
  MessagePool own;              ///< for messages of this rank to itself
  /// By function and sender: bytes of one run, by id.
  std::map<std::pair<int, int>, std::map<int64_t, size_t>> expected;
  Recorder *recorder = nullptr; ///< not owned
  Marks *marks = nullptr;
};

} // namespace divisi::runtime::cuda

#endif // DIVISI_RUNTIME_DEVICES_CUDA_MESSAGES_H
