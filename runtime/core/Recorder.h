//===- Recorder.h - when the calls of a task begin and end ------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CORE_RECORDER_H
#define DIVISI_RUNTIME_CORE_RECORDER_H

#include <chrono>
#include <cstdint>
#include <map>
#include <vector>

namespace divisi::runtime {

/// Times what one run of a task calls, in order, and the collectives that run beside it. The compute thread counts calls, the
/// communication thread adds collectives while a task runs; both are read when the task has ended.
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
  }
  double now() const { return std::chrono::duration<double>(Clock::now() - origin).count(); }
  void addCall(Span span) { calls.push_back(span); }
  void addCollective(int64_t id, Span span) { collectives[id] = span; }

  std::vector<Span> calls;              ///< of the last run
  std::map<int64_t, Span> collectives;  ///< of the last run, by number

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
