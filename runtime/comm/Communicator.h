//===- Communicator.h - the communication of one rank -----------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_COMM_COMMUNICATOR_H
#define DIVISI_RUNTIME_COMM_COMMUNICATOR_H

#include "runtime/comm/Collectives.h"
#include "runtime/comm/Exchange.h"
#include "runtime/comm/Pieces.h"
#include "runtime/core/Recorder.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <string_view>
#include <thread>

namespace divisi::runtime {

/// The communication of one rank.
struct CommUsage {
  int64_t bytes = 0;  ///< sent to other ranks
  double seconds = 0; ///< in collectives, on the communication thread
  double waited = 0;  ///< by the compute thread in `await` and `finish`
};

/// Whether this rank was asked to stop by a signal: one that leaves time for it, or one that does not.
enum class Interrupt { None, Stop, Urgent };

/// Runs the collectives that tasks start, in order, and transfers between stages beside them, on a thread of its own,
/// so that they overlap with computation. While any are in progress, only that thread uses the transport. When all are
/// complete, the compute thread calls the functions for hosts.
class Communicator : public Exchange {
public:
  /// `names` are the names of collectives and transfers by id. The transport must outlive the communicator.
  Communicator(Transport &transport, Mesh mesh, std::map<int64_t, std::string> names = {});
  /// Leaves unfinished what was started; the other ranks then fail.
  ~Communicator() override;

  int rank() const { return transport.rank(); }
  int size() const { return transport.size(); }
  const Mesh &mesh() const { return mesh_; }

  /// The addresses are those of this processor's memory.
  Status start(const DivisiCollective *params, void *const *buffers) override;
  Status send(const DivisiTransfer &params, const void *data) override;
  Status receive(const DivisiTransfer &params, void *data) override;
  Status await(int64_t id) override;
  /// A collective with its layout for this rank.
  Result<const Collective *> planOf(const DivisiCollective *params);
  /// Waits until everything that was started is complete.
  Status finish();
  /// Makes the waits of this rank fail, and those of other ranks if they can be told.
  void fail(const Status &why) { transport.fail(why); }

  /// `failure` with this rank and step in front, unless it has them already.
  Status located(const Status &failure) const;
  /// Sets who computes collectives over an axis; null: all, around rings. Before the first collective.
  void reduceBy(std::optional<Reducers> who) { reducers = who; }
  /// Sets what messages take, by which an all_reduce chooses its algorithm; equal on all ranks. Before the first
  /// collective.
  void linkBy(const HostLinks &links) { placement.links = links; }
  /// Makes the job go on without those of these ranks that are lost, as long as rank 0 is there, through which all
  /// communication goes that is between all ranks (Transport::spare). Collectives must be reduced by the first one.
  void outlive(const std::vector<bool> &spared);
  /// Whether some ranks are spared.
  bool outlives() const { return !living.empty(); }
  /// Whether a rank was lost, as far as this rank knows.
  bool isLost(int rank) const { return transport.isLost(rank); }
  /// Whether a rank took part in the last `agree`: the same on all ranks that did.
  bool tookPart(int rank) const { return living.empty() || living[static_cast<size_t>(rank)]; }
  /// Ranks that take no part in the next collectives; empty: all do.
  void leaveOut(std::vector<bool> ranks) { absent = std::move(ranks); }
  /// The other ranks let in those that have come in place of lost ones, after an `agree`; returns them.
  Result<std::vector<int>> letIn();
  /// Sets the step of training for messages.
  void setStep(int64_t number);
  /// Sets the microbatch whose messages between stages follow, where replicas take microbatches in turn; -1: those of
  /// the whole step, which every rank receives.
  void setTurn(int64_t microbatch) { turn = microbatch; }
  /// The rank of a stage from which such messages come, and to which they go; null: they may go to several ranks.
  std::optional<int> peerOf(int64_t stage) const {
    if (turn < 0 && mesh_.isNarrow())
      return std::nullopt;
    return plainPeer(stage);
  }
  /// Sets the function that says whether this rank was asked to stop. A wait then fails after half a second, and not
  /// before two steps if there is time for them: the other rank has ended. Threads that wait call the function.
  void setInterrupt(std::function<Interrupt()> asked) { interrupted = std::move(asked); }
  /// Distinguishes a rank that has ended from a slow one, once this rank was asked to stop.
  struct Patience {
    std::optional<std::chrono::steady_clock::time_point> since;
  };
  /// For other waits on the compute thread, with a patience of their own: returns the failure that ends the wait, if
  /// there is one. It does not name the place.
  Status watch(Patience &patience) const;
  /// Names another collective or transfer. Nothing may be in progress.
  void addName(int64_t id, std::string name) { names.emplace(id, std::move(name)); }
  /// A collective's or transfer's name for messages, in quotes.
  std::string nameOf(int64_t id) const;
  /// Records the times of collectives and transfers from now on; null: none. Nothing may be in progress.
  void setRecorder(Recorder *to) { recorder = to; }
  /// Since the last call. Nothing may be in progress.
  CommUsage takeUsage();

  /// For the compute thread. All ranks call the same functions in the same order; unless stated otherwise, nothing may
  /// be in progress.
  Status barrier() { return maximum(0).status(); }
  /// The largest `value` of all ranks. `hurry`: the other ranks are at most as busy as in a step (see setInterrupt).
  Result<int64_t> maximum(int64_t value, bool hurry = false);
  /// Sends the bytes of rank `from` to all ranks; other communication may be in progress. `hurry` as above.
  Status broadcast(std::string &bytes, int from = 0, bool hurry = false);
  /// Sends `bytes` bytes of rank `from` to rank 0, which knows how many there are; other ranks do nothing. Other
  /// communication may be in progress. `hurry` as above.
  Status toFirst(void *data, size_t bytes, int from, bool hurry = false);
  /// Sends the bytes of all ranks to rank 0; other ranks get none.
  Result<std::vector<std::string>> gather(std::string_view bytes);
  /// One message between two ranks, which counts as usage.
  Status send(int to, const void *data, size_t bytes);
  Status receive(int from, void *data, size_t bytes);
  /// A text of any length to one rank, and from one.
  Status tell(int to, std::string_view text);
  Status hear(int from, std::string &text);
  /// Messages of `bytes` bytes to one rank and from another at once; they count as usage.
  Status exchange(int to, const void *out, int from, void *in, size_t bytes);
  /// Messages of at least one byte under a tag from 1 to 8 of their own, which may be in progress at the same time.
  std::unique_ptr<Message> post(int to, int tag, const void *data, size_t bytes);
  std::unique_ptr<Message> accept(int from, int tag, void *data, size_t bytes);
  /// Waits until `isDone`; a failure of any rank ends the wait, as in other waits.
  Status waitUntil(const std::function<bool()> &isDone) const;
  /// Returns on all ranks the failure of the lowest rank that has one, or else the largest `flag` (>= 0) of all. Other
  /// communication may be in progress.
  Result<int64_t> agree(const Status &mine, int64_t flag = 0, bool hurry = false);

private:
  using Clock = std::chrono::steady_clock;
  /// The collectives or transfers started under an id, and how many are complete. Only the compute thread starts them.
  struct Flow {
    int64_t started = 0;
    int64_t number = 0; ///< of the last start, among those of all ids
    std::atomic<int64_t> completed = 0;
  };
  struct Job {
    int64_t id = 0;
    Flow *flow = nullptr;
    const Collective *collective = nullptr;
    std::vector<void *> buffers;
    std::function<void()> call = {}; ///< called instead of running a collective
  };
  /// What several transfers of one message have in common, for the recorder.
  struct Whole {
    size_t open = 0; ///< pieces that are not complete
    double begin = 0;
  };
  struct Transfer {
    int64_t id = 0;
    Flow *flow = nullptr;
    bool sends = false;
    int peer = 0;
    char *data = nullptr;
    size_t bytes = 0;
    double begin = 0;                      ///< for the recorder
    Scratch copy = {};                     ///< of the sent data, or of a received piece with gaps
    const Piece *piece = nullptr; ///< of `target`, into which the copy goes on arrival; null: it is in its place
    char *target = nullptr;
    std::shared_ptr<Whole> whole = {};     ///< null: it is the only piece
    std::unique_ptr<Message> message = {}; ///< null: not started
  };
  void work();
  /// Calls a function that uses the transport: on the communication thread, if that thread is using the transport.
  Status beside(const std::function<void()> &call);
  /// Counts what it sends, and its time, as usage.
  Status counted(const std::function<Status()> &body);
  Status broadcastNow(std::string &bytes, int from, bool hurry);
  Result<int64_t> agreeNow(const Status &mine, int64_t flag, bool hurry);
  /// The same, and `maximum`, if ranks may be lost.
  Result<int64_t> agreeByFirst(const Status &mine, int64_t flag, bool hurry);
  /// Whether a rank was lost, perhaps within a conversation: what has come of the rest of it is forgotten.
  bool dropIfLost(int rank);
  /// Sends the bytes of all ranks to rank 0; those of lost ranks are null.
  Result<std::vector<std::optional<std::string>>> gatherFrom(std::string_view bytes, bool hurry);
  Status run(const Job &job);
  Status check(const DivisiTransfer &params) const;
  /// What this rank sends or receives of a message of which it may have several peers.
  Result<const std::vector<Piece> *> piecesOf(const DivisiTransfer &params, bool sent);
  /// Whether a message has one peer, which has this rank's place in the other stage.
  bool isPlain(const DivisiTransfer &params) const { return turn >= 0 || !(mesh_.isNarrow() || params.dim_count > 0); }
  int plainPeer(int64_t stage) const {
    return turn >= 0 ? mesh_.inTurn(rank(), stage, turn) : mesh_.inStage(rank(), stage);
  }
  template <typename Make> Status inPieces(const DivisiTransfer &params, bool sends, const Make &make);
  Transfer sendingOf(const DivisiTransfer &params, int peer, int64_t bytes);
  Scratch takeCopy(size_t bytes);
  void begin(Transfer transfer);
  void progress();
  void complete(Transfer &transfer);
  void settle(Flow &flow);
  Status waitUntil(const std::atomic<int64_t> &counter, int64_t number, int64_t id);
  int64_t oldest() const;
  Status settled(bool hurry, const char *what);
  bool exhausted(Patience &patience) const;
  std::string place() const;

  Transport &transport;
  Mesh mesh_;
  std::map<int64_t, std::string> names;
  std::optional<Reducers> reducers;
  Placement placement;
  std::vector<bool> absent; ///< from collectives, by rank; empty: none
  std::vector<bool> living; ///< the ranks that took part in the last `agree`; empty: none may be lost
  std::function<Interrupt()> interrupted;
  std::map<const DivisiCollective *, Collective> plans; ///< of the compute thread, by constant parameters
  std::map<const DivisiTransfer *, std::vector<Piece>> sentPieces, receivedPieces; ///< likewise
  std::map<int64_t, Flow> flows, sendFlows;             ///< by id; a rank may send to itself under one id
  Flow hosts;                                           ///< of `beside`
  std::atomic<int64_t> step = 0;
  int64_t turn = -1;
  Clock::time_point stepBegan = Clock::now();
  double stepSeconds = 0; ///< of the previous step

  std::mutex mutex;
  std::condition_variable begun, done;
  std::deque<Job> jobs;
  std::vector<Job> spare; ///< finished jobs, whose memory is reused
  std::vector<Transfer> posted;
  std::vector<Scratch> copies; ///< memory for copies of data
  bool ends = false;
  std::atomic<int64_t> started = 0; ///< only the compute thread changes it
  std::atomic<int64_t> completed = 0;
  CommUsage usage;
  Recorder *recorder = nullptr;
  Scratch scratch;
  std::vector<Transfer> moving; ///< of the communication thread
  std::thread worker;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_COMM_COMMUNICATOR_H
