//===- Heartbeat.h - detection of silent ranks ------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_COMM_HEARTBEAT_H
#define DIVISI_RUNTIME_COMM_HEARTBEAT_H

#include "runtime/comm/Transport.h"

#include <chrono>
#include <condition_variable>
#include <thread>
#include <vector>

namespace divisi::runtime {

/// Rank 0 and every other rank exchange heartbeats, on a thread of its own. A process that is stopped or swapped out,
/// or whose host has vanished, sends none. A silent rank is reported, and after a time all ranks fail.
class Heartbeat {
public:
  struct Limits {
    double period = 1;    ///< seconds between two heartbeats
    double named = 6;     ///< seconds of silence after which a rank is named
    double timeout = 300; ///< seconds of silence after which the job ends
  };
  /// `hurried` returns whether this rank was asked to end: the job then ends as soon as a rank is reported silent.
  Heartbeat(Transport &transport, Limits limits, std::function<bool()> hurried);
  /// Without a call of `end` the job has failed, and no more heartbeats are exchanged.
  ~Heartbeat() { stop(Phase::Over); }
  Heartbeat(const Heartbeat &) = delete;
  Heartbeat &operator=(const Heartbeat &) = delete;

  /// Waits until all ranks have ended, unless the transport has failed. Called once; afterwards no rank is watched.
  Status end();

  /// Whether the job was given up because a rank was silent for too long. The other ranks report this, too, within a
  /// second.
  bool hasLost() const { return lost_; }

private:
  using Clock = std::chrono::steady_clock;
  /// One heartbeat.
  struct Beat {
    enum Kind : int32_t { Lives, Ends, Lost };
    int32_t kind = Lives;
    int32_t lost = 0;   ///< the rank that was lost
    double silence = 0; ///< its seconds
    char host[64] = {}; ///< of the sender, or of the rank that was lost
  };
  /// Another rank with which this one exchanges heartbeats.
  struct Other {
    int rank = 0;
    Beat in, out;
    std::unique_ptr<Message> coming, going;
    std::vector<Beat> untold; ///< of ranks that were lost, until what was sent before has left
    Clock::time_point told; ///< when the last heartbeat was sent
    std::string host;
    int64_t bytes = 0;  ///< received from it so far
    double silence = 0; ///< seconds since this rank last heard from it
    bool named = false, ended = false, toldEnd = false;
    bool lost = false; ///< and spared (Transport::spare): it is not watched until it comes again
  };

  enum class Phase { Trains, Ends, Over };

  void watch();
  void stop(Phase now);
  /// Sends and receives heartbeats; `seconds` since the last call.
  void lookAround(double seconds);
  void look(Other &other, double seconds);
  void hear(Other &other);
  void tell(Other &other, Beat::Kind kind);
  void send(Other &other);
  /// Sends what is untold, one after the other. Returns whether nothing is on its way any more.
  bool tellLosses(Other &other);
  bool isLost(Other &other);
  void giveUp(const Other &lost);
  bool isOver();
  std::string describe(const Other &other) const;

  Transport &transport;
  Limits limits;
  std::function<bool()> hurried;
  std::string host;
  std::vector<Other> others;
  std::mutex mutex;
  std::condition_variable changed;
  Phase phase = Phase::Trains;
  bool leaves = false; ///< this rank has ended; used by the thread only
  std::atomic<bool> lost_ = false;
  std::thread thread;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_COMM_HEARTBEAT_H
