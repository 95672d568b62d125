//===- Communicator.h - the collectives of one rank -------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_COMM_COMMUNICATOR_H
#define DIVISI_RUNTIME_COMM_COMMUNICATOR_H

#include "runtime/comm/Collectives.h"
#include "runtime/core/Recorder.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <string_view>
#include <thread>

namespace divisi::runtime {

/// What collectives have cost one rank.
struct CommUsage {
  int64_t bytes = 0;  ///< sent
  double seconds = 0; ///< in collectives, on the communication thread
  double waited = 0;  ///< by the compute thread in `await` and `finish`
};

/// Whether a rank was asked to stop: by a signal that leaves it time, or by one that does not.
enum class Interrupt { None, Stop, Urgent };

/// Runs the collectives that a task starts, in order, on a thread of its own, so that they overlap with computing.
/// While there are some only that thread uses the transport; between tasks the compute thread calls the functions for
/// hosts.
class Communicator {
public:
  /// `names` are those of the collectives by their id. The transport outlives the communicator.
  Communicator(Transport &transport, Mesh mesh, std::map<int64_t, std::string> names = {});
  /// Ends with what was started unfinished: the other ranks then fail.
  ~Communicator();

  int rank() const { return transport.rank(); }
  int size() const { return transport.size(); }
  const Mesh &mesh() const { return mesh_; }

  /// For `divisi_collective` and `divisi_await`. A failure names the rank, the step and the collective.
  Status start(const DivisiCollective *params, void *const *buffers);
  Status await(int64_t id);
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
  /// Gets the times of collectives from now on; null for none. Only while no collective runs.
  void setRecorder(Recorder *to) { recorder = to; }
  /// Since the last call; only while no collective runs.
  CommUsage takeUsage();

  /// For the compute thread while no collective runs. All ranks call the same functions in the same order.
  Status barrier() { return maximum(0).status(); }
  /// The largest `value` of all ranks. `hurry`: other ranks are as busy as in a step at most (see setInterrupt).
  Result<int64_t> maximum(int64_t value, bool hurry = false);
  /// The bytes of rank `from` on all ranks.
  Status broadcast(std::string &bytes, int from = 0);
  /// Rank 0 gets the bytes of all ranks, others nothing.
  Result<std::vector<std::string>> gather(std::string_view bytes);
  /// One message between two ranks.
  Status send(int to, const void *data, size_t bytes);
  Status receive(int from, void *data, size_t bytes);
  /// The failure of the lowest rank that has one, on all ranks; otherwise the largest `flag` (at least 0) of all.
  Result<int64_t> agree(const Status &mine, int64_t flag = 0, bool hurry = false);

private:
  using Clock = std::chrono::steady_clock;
  struct Job {
    int64_t id = 0;
    const Collective *collective = nullptr;
    std::vector<void *> buffers;
  };
  /// Tells a rank that has ended from one that is slow, once this rank is asked to stop.
  struct Patience {
    std::optional<Clock::time_point> since;
  };
  void work();
  Status run(const Job &job);
  Status waitUntil(int64_t number, int64_t id);
  bool exhausted(Patience &patience) const;
  std::string place() const;
  std::string nameOf(int64_t id) const;

  Transport &transport;
  Mesh mesh_;
  std::map<int64_t, std::string> names;
  std::function<Interrupt()> interrupted;
  std::map<const DivisiCollective *, Collective> plans; ///< the compute thread's
  std::map<int64_t, int64_t> numbers;                   ///< of the last start of each id
  std::atomic<int64_t> step = 0;
  Clock::time_point stepBegan = Clock::now();
  double stepSeconds = 0; ///< of the step before

  std::mutex mutex;
  std::condition_variable begun, done;
  std::deque<Job> jobs;
  std::vector<Job> spare; ///< keeps their memory
  bool ends = false;
  int64_t started = 0;
  std::atomic<int64_t> completed = 0;
  CommUsage usage;
  Recorder *recorder = nullptr;
  Scratch scratch;
  std::thread worker;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_COMM_COMMUNICATOR_H
