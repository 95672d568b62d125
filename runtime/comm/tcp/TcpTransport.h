//===- TcpTransport.h - processes as ranks, by TCP --------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_COMM_TCP_TCPTRANSPORT_H
#define DIVISI_RUNTIME_COMM_TCP_TCPTRANSPORT_H

#include "runtime/comm/Transport.h"
#include "runtime/comm/tcp/Rendezvous.h"

#include <deque>
#include <map>
#include <vector>

namespace divisi::runtime {

/// A connection to every other rank. Messages are frames of a tag and a length; those that come before they are asked
/// for are kept. Work is done when somebody waits or asks, one thread at a time.
class TcpTransport final : public Transport {
public:
  TcpTransport(const Rendezvous &where, Connections connections);
  ~TcpTransport() override;

  int cores() const override { return share; }
  int local() const override { return local_; }
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

protected:
  void startSend(int to, const void *data, size_t bytes) override;
  void startReceive(int from, void *data, size_t bytes) override;
  bool poll() override;
  void cancel() override;

private:
  /// A message that one side has started; `done` when its memory is free.
  struct Half {
    char *data = nullptr;
    size_t bytes = 0;
    bool done = false;
  };
  using Started = std::shared_ptr<Half>;
  struct Header {
    uint64_t bytes = 0;
    int64_t tag = 0; ///< 0: none; -1: why the sender ends
  };
  /// What goes to a rank.
  struct Outgoing {
    Header header;
    Started message;
    size_t sent = 0; ///< bytes of header and message
  };
  struct Peer {
    Socket socket;
    bool ended = false; ///< it sends no more
    int64_t bytes = 0;  ///< that have come from it
    std::deque<Outgoing> outgoing;
    std::map<int64_t, std::deque<Started>> wanted;          ///< by tag
    std::map<int64_t, std::deque<std::vector<char>>> early; ///< by tag: came before they were wanted
    Header header;                                          ///< of the message that comes
    size_t received = 0;                                    ///< bytes of header and message
    Started target;                                         ///< where it goes; null: to `kept`
    std::vector<char> kept;
  };
  struct Ticket;

  Started post(int to, int64_t tag, const void *data, size_t bytes);
  Started want(int from, int64_t tag, void *data, size_t bytes);
  void progress();
  void write(int rank, Peer &peer);
  void read(int rank, Peer &peer);
  /// Something of a message has come: its header, or all of it.
  void opened(int rank, Peer &peer);
  void finished(int rank, Peer &peer);
  void deliver(int from, const std::vector<char> &kept, Half &to);
  void lost(int rank, Peer &peer);
  Peer &peer(int rank) { return peers[static_cast<size_t>(rank)]; }

  mutable Turns turns_; ///< to use what follows
  std::vector<Peer> peers;
  int share, local_;
  std::vector<Started> plain; ///< messages without a tag that are not complete
};

/// Waits until all ranks have come.
Result<std::unique_ptr<Transport>> joinByTcp(const Rendezvous &where);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_COMM_TCP_TCPTRANSPORT_H
