//===- ServedStep.h - training with parameter servers -----------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_MAIN_SERVEDSTEP_H
#define DIVISI_RUNTIME_MAIN_SERVEDSTEP_H

#include "runtime/main/FreeRun.h"

namespace divisi::runtime {

/// Runs the batches of a training with dedicated servers (Manifest::servers): workers compute the gradients of shares
/// of batches and send them to the servers (push), which update the parameters and send these back (pull). The first
/// server deals the shares and decides on the order of updates, which the other servers follow.
///
/// Asynchronous servers go on without workers that are lost (Communicator::outlive), but for the first one. Nothing has
/// happened to a share whose worker is lost before its gradients have reached all servers: it is dealt again. So that
/// servers agree on that, the others confirm to the first one what has come.
class ServedStep {
public:
  /// All must outlive the object. All ranks create it, once.
  ServedStep(const Manifest &manifest, const Arena &arena, Communicator &ranks, DeviceCopies device);

  /// Runs batches `begin` up to `end`, or fewer if the first server says that it is enough, at least one. All ranks call it together, while no other
  /// communication is in progress. Before the first run all ranks have the same state; after each one all have the same parameters,
  /// and the workers that save checkpoints the optimizer's state.
  Result<FreeRun> run(int64_t begin, int64_t end, const FreeWork &work);

private:
  /// What the first server tells workers and the other servers.
  struct Order {
    enum Kind : int64_t { Compute, Update, End, Lost } kind;
    int64_t worker, batch, share, version;
  };
  /// A worker's message to the first server, also whether it was asked to stop: its gradients follow.
  struct Hello {
    int64_t batch, share, pulled, stops;
  };
  struct Piece {
    int64_t offset, bytes;
  };

  int leader() const { return static_cast<int>(manifest.mesh.size()); }
  int64_t workers() const { return manifest.mesh.axes()[static_cast<size_t>(servers.axis)].size; }
  int64_t own() const { return manifest.mesh.index(manifest.rank, servers.axis); }

  Status work(const FreeWork &work);
  Result<FreeRun> lead(int64_t begin, int64_t end, const FreeWork &work);
  Status follow(const FreeWork &work);
  /// Of the first server: a worker whose share can be used for an update, or one that is lost; of all in turn, from
  /// `from` on.
  struct News {
    int64_t worker = -1;
    bool isLost = false;
  };
  News look(int64_t from);
  bool hasCome(int64_t worker);
  bool isLost(int64_t worker) const { return ranks.isLost(manifest.workerRank(worker)); }
  /// Forgets what a lost worker has sent, on all servers.
  Status forget(int64_t worker);
  /// Sends this server's part of the parameters to a worker, and expects its next push; `last`: there is none.
  Status hand(int64_t worker, bool last);
  /// Updates by what a worker has pushed; -1: what all have. Returns the results: on the first server's first rank those of all stages.
  Result<std::vector<double>> update(int64_t worker, int64_t batch, const FreeWork &work);
  /// Adds to the results of this rank, on the first server's first rank, those of the same server's other ranks (servedTags::result).
  Result<std::vector<double>> collect(std::vector<double> results);
  /// Adds what a worker has pushed to what is in the arena.
  void add(int64_t worker) const;
  Status command(int to, const Order &order);
  Status tellServers(const Order &order);
  /// Tells all ranks of workers and of the other servers, and does what the orders say: each is of another worker.
  Status tellWorkers(const std::vector<Order> &orders);
  /// Waits until all messages have come or left.
  Status finish(std::vector<std::unique_ptr<Message>> &messages);

  /// The places of a server: what is pushed to it, and of what it renews the parameters and buffers, the moving averages, which evaluations
  /// may read, and the rest, which is saved.
  struct Places {
    std::vector<Piece> pushed, read, averages, saved;
  };
  const Places &ofServer(int64_t number) const { return ofServers[static_cast<size_t>(number)]; }
  /// What a server has for a worker after an update; `last`: also what evaluations and checkpoints need.
  std::vector<Piece> renewedBy(int64_t number, int64_t worker, bool last) const;
  static size_t sizeOf(const std::vector<Piece> &pieces);
  /// Copies all pieces between the arena and the device that computes.
  Status copyAll(const std::vector<Piece> &pieces, const DeviceCopies::Copy &copy) const;
  /// Takes pieces from the device.
  Status gather(const std::vector<Piece> &pieces, std::vector<char> &to) const;
  /// Puts pieces into the arena, not yet on the device.
  void scatter(const std::vector<Piece> &pieces, const char *from) const;
  Status receive(int from, int tag, void *data, size_t bytes);

  const Manifest &manifest;
  const Servers &servers;
  const Arena &arena;
  Communicator &ranks;
  const DeviceCopies device;
  std::vector<Places> ofServers;
  /// What a server has for each worker.
  struct Peer {
    Hello hello;
    std::vector<char> pushed, sent; ///< what has come, and what is on its way
    std::unique_ptr<Message> greeting, push, pull;
    bool isBusy = false; ///< has a share
    bool isConfirmed = false; ///< of other servers than the first one: it knows that the gradients have come
    size_t confirmed = 0;     ///< of the first one: the servers that have said so
    bool isHere() const { return (!push || push->poll()) && (!greeting || greeting->poll()); }
    bool isWhole() const { return isHere() && !(push && push->isLost()) && !(greeting && greeting->isLost()); }
    void clear() {
      push.reset();
      greeting.reset();
      pull.reset();
      isBusy = isConfirmed = false;
      confirmed = 0;
    }
  };
  std::vector<Peer> peers;
  /// What another server says to the first one: the worker whose gradients have come to it, that it has forgotten a worker, or that it says nothing more in
  /// this run. The first server has one of each other, in which the next comes; another one has its own.
  struct Note {
    static constexpr int64_t forgotten = -1, end = -2;
    int rank = 0;
    int64_t worker = 0;
    std::unique_ptr<Message> message;
  };
  std::vector<Note> notes;
  bool confirms() const { return servers.count() > 1 && ranks.outlives(); }
  /// Takes what other servers say. Returns how many have forgotten a worker.
  size_t takeNotes();
  /// Says it to the first server.
  Status say(Note &note, int64_t what);
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_MAIN_SERVEDSTEP_H
