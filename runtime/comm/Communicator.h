//===- Communicator.h - what one rank tells the others ----------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_COMM_COMMUNICATOR_H
#define DIVISI_RUNTIME_COMM_COMMUNICATOR_H

#include "runtime/comm/Collectives.h"
#include "runtime/comm/Exchange.h"
#include "runtime/core/Recorder.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <string_view>
#include <thread>

namespace divisi::runtime {

/// What communication has cost one rank.
struct CommUsage {
  int64_t bytes = 0;  ///< sent to other ranks
  double seconds = 0; ///< in collectives, on the communication thread
  double waited = 0;  ///< by the compute thread in `await` and `finish`
};

/// Whether a rank was asked to stop: by a signal that leaves it time, or by one that does not.
enum class Interrupt { None, Stop, Urgent };

/// Runs the collectives that tasks start, in order, and beside them transfers between stages, on a thread of its own,
/// so that they overlap with computing. While there are some only that thread uses the transport; when all are complete
/// the compute thread calls the functions for hosts.
class Communicator : public Exchange {
public:
  /// `names` are those of the collectives and transfers by their id. The transport outlives the communicator.
  Communicator(Transport &transport, Mesh mesh, std::map<int64_t, std::string> names = {});
  /// Ends with what was started unfinished: the other ranks then fail.
  ~Communicator() override;

  int rank() const { return transport.rank(); }
  int size() const { return transport.size(); }
  const Mesh &mesh() const { return mesh_; }

  /// For addresses of this processor.
  Status start(const DivisiCollective *params, void *const *buffers) override;
  Status send(const DivisiTransfer &params, const void *data) override;
  Status receive(const DivisiTransfer &params, void *data) override;
  Status await(int64_t id) override;
  /// A collective as it is laid out for this rank.
  Result<const Collective *> planOf(const DivisiCollective *params);
  /// Waits for all that was started.
  Status finish();
  /// Ends the waiting of this rank, and of other ranks where they can be told.
  void fail(const Status &why) { transport.fail(why); }

  /// `failure` with this rank and step in front, if it does not say so already.
  Status located(const Status &failure) const;
  /// The step of training that messages name.
  void setStep(int64_t number);
  /// Says whether this rank was asked to stop. A wait that lasts half a second longer then, and two steps if there is
  /// time, fails: the rank waited for has ended. Asked from the waiting thread alone.
  void setInterrupt(std::function<Interrupt()> asked) { interrupted = std::move(asked); }
  /// Tells a rank that has ended from one that is slow, once this rank is asked to stop.
  struct Patience {
    std::optional<std::chrono::steady_clock::time_point> since;
  };
  /// For a wait of somebody else on the compute thread, which has a patience of its own: the failure that ends it, if
  /// there is one. (It does not say where.)
  Status watch(Patience &patience) const;
  /// Names another collective or transfer. Only while nothing is under way.
  void addName(int64_t id, std::string name) { names.emplace(id, std::move(name)); }
  /// What messages call a collective or transfer: 'its name'.
  std::string nameOf(int64_t id) const;
  /// Gets the times of collectives and transfers from now on; null for none. Only while there are none.
  void setRecorder(Recorder *to) { recorder = to; }
  /// Since the last call; only while nothing is under way.
  CommUsage takeUsage();

  /// For the compute thread. All ranks call the same functions in the same order; where it is not said otherwise, only
  /// while nothing is under way.
  Status barrier() { return maximum(0).status(); }
  /// The largest `value` of all ranks. `hurry`: other ranks are as busy as in a step at most (see setInterrupt).
  Result<int64_t> maximum(int64_t value, bool hurry = false);
  /// The bytes of rank `from` on all ranks, beside what is under way. `hurry` as above.
  Status broadcast(std::string &bytes, int from = 0, bool hurry = false);
  /// Rank 0 gets the bytes of all ranks, others nothing.
  Result<std::vector<std::string>> gather(std::string_view bytes);
  /// One message between two ranks.
  Status send(int to, const void *data, size_t bytes);
  Status receive(int from, void *data, size_t bytes);
  /// The failure of the lowest rank that has one, on all ranks; otherwise the largest `flag` (at least 0) of all.
  /// Beside what is under way.
  Result<int64_t> agree(const Status &mine, int64_t flag = 0, bool hurry = false);

private:
  using Clock = std::chrono::steady_clock;
  /// What was started under an id, and how much of it is complete. The compute thread alone adds to it.
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
    std::function<void()> call = {}; ///< instead of a collective
  };
  struct Transfer {
    int64_t id = 0;
    Flow *flow = nullptr;
    bool sends = false;
    int peer = 0;
    char *data = nullptr;
    size_t bytes = 0;
    double begin = 0;                      ///< for the recorder
    Scratch copy = {};                     ///< of what is sent
    std::unique_ptr<Message> message = {}; ///< null: not started
  };
  void work();
  /// Calls a function that uses the transport on the communication thread, if that thread is using it.
  Status beside(const std::function<void()> &call);
  Status broadcastNow(std::string &bytes, int from, bool hurry);
  Result<int64_t> agreeNow(const Status &mine, int64_t flag, bool hurry);
  Status run(const Job &job);
  Status check(const DivisiTransfer &params) const;
  void sendTo(int peer, const DivisiTransfer &params, const void *data);
  void begin(const DivisiTransfer &params, Transfer transfer);
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
  std::function<Interrupt()> interrupted;
  std::map<const DivisiCollective *, Collective> plans; ///< the compute thread's
  std::map<int64_t, Flow> flows, sendFlows;             ///< by id; one rank may send to itself under one id
  Flow hosts;                                           ///< of `beside`
  std::atomic<int64_t> step = 0;
  Clock::time_point stepBegan = Clock::now();
  double stepSeconds = 0; ///< of the step before

  std::mutex mutex;
  std::condition_variable begun, done;
  std::deque<Job> jobs;
  std::vector<Job> spare; ///< keeps their memory
  std::vector<Transfer> posted;
  std::vector<Scratch> copies; ///< memory for what is sent
  bool ends = false;
  int64_t started = 0;
  std::atomic<int64_t> completed = 0;
  CommUsage usage;
  Recorder *recorder = nullptr;
  Scratch scratch;
  std::vector<Transfer> moving; ///< the communication thread's
  std::thread worker;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_COMM_COMMUNICATOR_H
