//===- Heartbeat.h - which ranks have fallen silent -------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_COMM_HEARTBEAT_H
#define DIVISI_RUNTIME_COMM_HEARTBEAT_H

#include "runtime/comm/Transport.h"

#include <chrono>
#include <condition_variable>
#include <thread>
#include <vector>

namespace divisi::runtime {

/// Rank 0 and every other rank tell each other that they live, on a thread of its own: a process that is stopped,
/// swapped out or on a host that has vanished does not. Whoever is silent is named, and after a time all ranks fail.
class Heartbeat {
public:
  struct Limits {
    double period = 1;    ///< seconds between two heartbeats
    double named = 8;     ///< seconds of silence after which a rank is named
    double timeout = 300; ///< seconds of silence after which the job ends
  };
  /// `hurried` says whether this rank was asked to end: then the job ends as soon as a rank is named.
  Heartbeat(Transport &transport, Limits limits, std::function<bool()> hurried);
  /// Without `end`: the job has failed, and nothing more is said or heard.
  ~Heartbeat() { stop(Phase::Over); }
  Heartbeat(const Heartbeat &) = delete;
  Heartbeat &operator=(const Heartbeat &) = delete;

  /// Waits until all ranks have come to their ends, unless the transport has failed. Once; nothing is watched after it.
  Status end();

  /// Whether the job was given up because a rank has been silent for too long: the other ranks say so, too, if they are
  /// given a second.
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
  /// A rank that this one hears and tells.
  struct Other {
    int rank = 0;
    Beat in, out;
    std::unique_ptr<Message> coming, going;
    Clock::time_point told; ///< when the last heartbeat began to go
    std::string host;
    int64_t bytes = 0;  ///< that had come from it
    double silence = 0; ///< seconds in which this rank heard nothing of it
    bool named = false, ended = false, toldEnd = false;
  };

  enum class Phase { Trains, Ends, Over };

  void watch();
  void stop(Phase now);
  /// Looks after what has come and goes; `seconds` since the last look.
  void lookAround(double seconds);
  void look(Other &other, double seconds);
  void hear(Other &other);
  void tell(Other &other, Beat::Kind kind);
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
  bool leaves = false; ///< this rank has come to its end; known to the thread alone
  std::atomic<bool> lost_ = false;
  std::thread thread;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_COMM_HEARTBEAT_H
