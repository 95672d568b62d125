//===- Recorder.h - when the calls of a task begin and end ------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CORE_RECORDER_H
#define DIVISI_RUNTIME_CORE_RECORDER_H

#include <chrono>
#include <cstdint>
#include <map>
#include <vector>

namespace divisi::runtime {

/// Times what a rank calls in a step, in order, and what travels beside it. The compute thread counts calls, the
/// communication thread adds collectives and transfers while tasks run; both are read when the tasks have ended.
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
  }
  double now() const { return std::chrono::duration<double>(Clock::now() - origin).count(); }
  void addCall(Span span) { calls.push_back(span); }
  void addCollective(int64_t id, Span span) { collectives[id].push_back(span); }
  void addSend(int64_t id, Span span) { sends[id].push_back(span); }

  /// The spans of each number, in order.
  using ById = std::map<int64_t, std::vector<Span>>;
  std::vector<Span> calls; ///< of the last step
  ById collectives;        ///< and what was received
  ById sends;

private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point origin = Clock::now();
};

/// Records one call while it lives; nothing without a recorder.
class RecordedCall {
public:
  explicit RecordedCall(Recorder *recorder) : recorder(recorder), begin(recorder ? recorder->now() : 0) {}
  ~RecordedCall() {
    if (recorder)
      recorder->addCall({begin, recorder->now()});
  }
  RecordedCall(const RecordedCall &) = delete;
  RecordedCall &operator=(const RecordedCall &) = delete;

private:
  Recorder *recorder;
  double begin;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CORE_RECORDER_H
