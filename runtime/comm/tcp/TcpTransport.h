//===- TcpTransport.h - processes as ranks, by TCP --------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_COMM_TCP_TCPTRANSPORT_H
#define DIVISI_RUNTIME_COMM_TCP_TCPTRANSPORT_H

#include "runtime/comm/Transport.h"
#include "runtime/comm/tcp/LateRanks.h"
#include "runtime/comm/tcp/Link.h"
#include "runtime/comm/tcp/Rendezvous.h"

#include <deque>
#include <map>
#include <vector>

namespace divisi::runtime {

/// Connections to all other ranks. Messages are frames with a tag and a length; those that arrive before they are
/// requested are kept. Threads that wait or poll do the work, one at a time.
class TcpTransport final : public Transport {
public:
  /// `links`: to all ranks; none if the job runs already.
  TcpTransport(const Rendezvous &where, Connections connections, std::vector<Link> links, Secret secret);
  ~TcpTransport() override;

  int cores() const override { return share; }
  int local() const override { return local_; }
  const std::vector<int> &hosts() const override { return hosts_; }
  /// Tells the other ranks why this one ends.
  void terminate(int exitCode) override;

  using Transport::receive;
  using Transport::send;
  std::unique_ptr<Message> send(int to, int tag, const void *data, size_t bytes) override;
  std::unique_ptr<Message> receive(int from, int tag, void *data, size_t bytes) override;
  int64_t largestTag() const override { return INT32_MAX - 1; }
  int heartbeatTag() const override { return INT32_MAX; }
  int64_t received(int from) const override;
  Turns *turns() override { return &turns_; }
  Status lookAround() override;
  void spare(const std::vector<bool> &ranks) override;
  bool isSpared(int rank) const override;
  bool isLost(int rank) const override;
  bool hasEnded(int rank) const override;
  void drop(int rank) override;
  bool isLate() const override { return entry.has_value(); }
  Status enter() override;
  bool hasNewcomers() override { return door && door->hasGuests(); }
  std::string newcomers() override;
  std::vector<int> meet(const std::string &newcomers) override;

protected:
  void startSend(int to, const void *data, size_t bytes) override;
  void startReceive(int from, void *data, size_t bytes) override;
  bool poll() override;
  void cancel() override;

private:
  /// A message that one side has started; `done` when its memory is no longer used.
  struct Half {
    char *data = nullptr;
    size_t bytes = 0;
    bool done = false;
    bool lost = false; ///< done, because the other rank was lost
  };
  using Started = std::shared_ptr<Half>;
  struct Header {
    uint64_t bytes = 0;
    int64_t tag = 0; ///< 0: none; -1: why the sender ends
  };
  /// A message to another rank.
  struct Outgoing {
    Header header;
    Started message;
    size_t sent = 0; ///< bytes of header and message
  };
  struct Peer {
    Link link;
    bool ended = false;  ///< it sends nothing more
    bool spared = false; ///< its end is no failure
    bool gone = false;   ///< it was spared, and has ended
    int64_t bytes = 0;  ///< received from it
    std::deque<Outgoing> outgoing;
    std::map<int64_t, std::deque<Started>> wanted;          ///< by tag
    std::map<int64_t, std::deque<std::vector<char>>> early; ///< by tag: arrived before they were requested
    Header header;                                          ///< of the message that is being received
    size_t received = 0;                                    ///< bytes of header and message
    Started target;                                         ///< its destination; null: `kept`
    std::vector<char> kept;
  };
  struct Ticket;

  Started post(int to, int64_t tag, const void *data, size_t bytes);
  Started want(int from, int64_t tag, void *data, size_t bytes);
  void progress();
  void write(int rank, Peer &peer);
  void read(int rank, Peer &peer);
  /// Called when the header of a message, or all of it, has arrived.
  void opened(int rank, Peer &peer);
  void finished(int rank, Peer &peer);
  void deliver(int from, const std::vector<char> &kept, Half &to);
  void lost(int rank, Peer &peer);
  /// Completes all messages of a spared rank that was lost.
  void forget(Peer &peer);
  void attach(int rank, Socket socket);
  Peer &peer(int rank) { return peers[static_cast<size_t>(rank)]; }

  mutable Turns turns_; ///< protects the members below
  std::vector<Peer> peers;
  std::vector<bool> sparable; ///< by rank: as `spare` was told; empty: none
  int share, local_;
  std::vector<int> hosts_;
  Rendezvous where;
  Secret secret;
  std::optional<Door> door;   ///< of rank 0
  std::optional<Entry> entry; ///< of a rank that has come late
  std::vector<Guest> guests;  ///< of rank 0: whom `meet` lets in
  std::vector<Started> plain; ///< incomplete messages without a tag
};

/// Waits until all ranks have come.
Result<std::unique_ptr<Transport>> joinByTcp(const Rendezvous &where);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_COMM_TCP_TCPTRANSPORT_H
