//===- AsynchronousGossip.h - replicas without a centre ---------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_MAIN_ASYNCHRONOUSGOSSIP_H
#define DIVISI_RUNTIME_MAIN_ASYNCHRONOUSGOSSIP_H

#include "runtime/main/FreeRun.h"
#include "runtime/main/SharedOrder.h"

#include <mutex>
#include <thread>

namespace divisi::runtime {

/// Asynchronous decentralised SGD (AD-PSGD, Lian et al., arXiv 1710.06952): each replica computes an update from a copy of its parameters,
/// averages its parameters with a neighbour's meanwhile or then, and adds the update. Replicas stand on a ring: those with even
/// indices ask one of their neighbours, drawn at random, for an average; those with odd indices answer, on a thread of their own, while they compute. So none
/// waits for a third one. Rank 0 deals the shares of batches to free replicas.
///
/// A replica may have several ranks (axes beside that of the replicas, and stages): each averages its part of the parameters with the rank at the
/// same place of the neighbour. What parts have in common stays equal because all ranks of a replica do the same in the same order: an
/// asking replica's is always compute, average, apply; an answering one's first rank decides when it answers (SharedOrder).
class AsynchronousGossip {
public:
  /// What a replica does, in its own order. An average is the event `their` of the replica `with`, too.
  struct Event {
    enum Kind : int64_t { Compute, Average, Apply } kind;
    int64_t batch, share, with, their;
  };
  /// `averaged` are the tensors of which each replica has its own. All must outlive the object. All ranks create it, once.
  AsynchronousGossip(const Manifest &manifest, const Arena &arena, Communicator &ranks, std::vector<const State *> averaged, DeviceCopies device);

  /// Runs batches `begin` up to `end`, or fewer, at least one: `compute` makes a whole step of the replica's optimizer on its share, and
  /// `results` are that step's. All ranks call it together, while no other communication is in progress. Afterwards each replica's parameters are in its
  /// arena, and `eventsOfAll` on rank 0 has what all have done.
  Result<FreeRun> run(int64_t begin, int64_t end, const FreeWork &work);
  /// The events of the last run by replica.
  const std::vector<std::vector<Event>> &eventsOfAll() const { return allEvents; }

private:
  /// A replica tells rank 0 what it has finished (batch < 0: nothing yet), and whether it was asked to stop; its results follow.
  struct Hello {
    int64_t batch, share, stops;
  };
  struct Order {
    int64_t batch, share; ///< batch < 0: the run has ended
  };
  /// What the first rank of an answering replica tells the others: the number of the asker with which to average, or this.
  static constexpr int64_t ownEvent = -1, noMore = -2;

  int leader(int64_t replica) const { return leaders[static_cast<size_t>(replica)]; }
  bool leads() const { return sameOrder.decides(); }
  bool isActive() const { return own % 2 == 0; }
  /// The neighbours on the ring that are of the other kind.
  std::vector<int64_t> neighbours() const;
  Status work(const FreeWork &work);
  /// What this replica's rank does next: on its first rank, what rank 0 deals after it was told what has finished; the others follow it.
  Result<Order> next(const Hello &hello, const std::vector<double> &results);
  Result<Order> dealt(const Hello &hello, const std::vector<double> &results);
  /// Adds to what the replica's first rank has finished what its other ranks have.
  Status collect(Hello &hello, std::vector<double> &results);
  /// A hello with results, as one message.
  std::vector<char> packed(const Hello &hello, const std::vector<double> &results) const;
  std::pair<Hello, std::vector<double>> unpacked(const std::vector<char> &said) const;
  size_t helloBytes() const { return sizeof(Hello) + manifest.results.size() * sizeof(double); }
  /// The replica's parameters are those in the arena.
  void begin();
  /// Puts the replica's parameters into the arena.
  void toArena() const;
  /// Copies them between the arena and the device that computes.
  Status copyAll(const DeviceCopies::Copy &copy) const;
  /// Does what is this rank's own turn, and notes it.
  Status inTurn(const Event &event, const std::function<void()> &body);
  /// Averages with a neighbour, after which both have the mean.
  Status average(const Share &share);
  /// Tells the neighbours that none is asked in this run any more.
  Status sayEnd();
  /// Adds what was computed to the parameters.
  void add();
  /// Answers neighbours, until the run ends.
  Status answer();
  /// The same, when the replica's first rank does.
  Status follow();
  /// Deals to the other replicas, until all have been told that the run ends. Rank 0.
  Status dealToOthers();
  /// Takes what a replica has finished. Rank 0, as what follows.
  void take(const Hello &hello, const double *results);
  /// What a replica does next; null: it has to wait.
  std::optional<Order> deal();
  bool isDone();
  Status gatherEvents();
  /// Calls body(number of elements, their place in the arena, offset in `live`) with the element type.
  template <typename Body> void forEachTensor(const Body &body) const;

  const Manifest &manifest;
  const Arena &arena;
  Communicator &ranks;
  const std::vector<const State *> averaged;
  const DeviceCopies device;
  const int64_t own, count;         ///< this rank's replica, and the number of replicas
  const std::vector<int> leaders, team; ///< the first rank of each replica, and the ranks of this one
  SharedOrder sameOrder;
  std::atomic<bool> isOwnTurn = false; ///< of a rank that follows: it does what comes next by itself
  std::vector<char> live, before; ///< parameters, and those from which an update is computed
  std::vector<Event> events; ///< of this run
  int64_t earlier = 0;       ///< events of earlier runs of this process
  int64_t first = 0;         ///< batch of this run
  std::vector<std::vector<Event>> allEvents;
  std::mutex mutex; ///< of `live`, `events` and `deals`

  /// What an answering replica has for a neighbour that may ask at any time in a run.
  struct Asker {
    int64_t replica = 0;
    int rank = 0; ///< at this rank's place
    std::vector<char> theirs, reply; ///< parameters, behind whether this is the end, and behind the number of the event
    bool ended = false;
    std::unique_ptr<Message> asked, answered;
  };
  std::vector<Asker> askers;
  void listen(Asker &asker);
  /// Whether the last answer has left, and another question, or the end, has come.
  bool hasAsked(Asker &asker);
  /// Makes both parameters their mean.
  void reply(Asker &asker);

  /// Of rank 0, during a run.
  struct Deals {
    ShareDealer dealer;
    BatchResults results;
  };
  std::optional<Deals> deals;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_MAIN_ASYNCHRONOUSGOSSIP_H
