//===- Recorder.h - times of the calls of a task ----------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CORE_RECORDER_H
#define DIVISI_RUNTIME_CORE_RECORDER_H

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

namespace divisi::runtime {

/// Records the times of a rank's calls in a step, in order, and of its communication. The compute thread counts calls;
/// the communication thread adds collectives and transfers while tasks run. Both are read when the tasks have ended. An
/// asynchronous device sets marks and reports their times at the end.
class Recorder {
public:
  /// Seconds since the run began.
  struct Span {
    double begin = 0, end = 0;
    double seconds() const { return end - begin; }
  };

  void begin() {
    origin = Clock::now();
    calls.clear();
    collectives.clear();
    sends.clear();
    marked.clear();
  }
  double now() const { return std::chrono::duration<double>(Clock::now() - origin).count(); }
  void addCall(Span span) { calls.push_back(span); }
  void addCollective(int64_t id, Span span) { collectives[id].push_back(span); }
  void addSend(int64_t id, Span span) { sends[id].push_back(span); }

  /// Sets a mark behind the work that the device was given so far, and returns its number; null: this processor
  /// computes.
  std::function<size_t()> mark;
  /// Adds a call, or a collective, between two marks.
  void addMarked(size_t begin, size_t end, std::optional<int64_t> collective = {}) {
    if (marked.empty())
      firstMark = now();
    marked.push_back({begin, end, collective});
  }
  void addMarkedSend(size_t begin, size_t end, int64_t id) {
    addMarked(begin, end, id);
    marked.back().sends = true;
  }
  /// Sets the seconds of all marks since the first; empty if they are not known.
  void resolve(const std::vector<double> &seconds) {
    for (const Marked &m : marked) {
      if (m.begin >= seconds.size() || m.end >= seconds.size())
        continue;
      Span span{firstMark + seconds[m.begin], firstMark + seconds[m.end]};
      m.sends ? addSend(*m.collective, span) : m.collective ? addCollective(*m.collective, span) : addCall(span);
    }
    marked.clear();
  }

  /// The spans of each id, in order.
  using ById = std::map<int64_t, std::vector<Span>>;
  std::vector<Span> calls; ///< of the last step
  ById collectives;        ///< and receives
  ById sends;

private:
  using Clock = std::chrono::steady_clock;
  struct Marked {
    size_t begin, end;
    std::optional<int64_t> collective;
    bool sends = false;
  };
  Clock::time_point origin = Clock::now();
  std::vector<Marked> marked;
  double firstMark = 0;
};

/// Records one call during its own lifetime; without a recorder it does nothing.
class RecordedCall {
public:
  explicit RecordedCall(Recorder *recorder)
      : recorder(recorder), mark(recorder && recorder->mark ? recorder->mark() : 0),
        begin(recorder ? recorder->now() : 0) {}
  ~RecordedCall() {
    if (recorder && recorder->mark)
      recorder->addMarked(mark, recorder->mark());
    else if (recorder)
      recorder->addCall({begin, recorder->now()});
  }
  RecordedCall(const RecordedCall &) = delete;
  RecordedCall &operator=(const RecordedCall &) = delete;

private:
  Recorder *recorder;
  size_t mark;
  double begin;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CORE_RECORDER_H
