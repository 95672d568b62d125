//===- SpareTime.h - work beside the program's ------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CORE_SPARETIME_H
#define DIVISI_RUNTIME_CORE_SPARETIME_H

#include <atomic>
#include <cstdint>

namespace divisi::runtime {

/// Lets the calling thread work in the time that other threads leave: it gets the lowest priority, and rests between
/// short parts of its work as long as it must share its core.
/// The priority alone does not suffice: the scheduler still gives such a thread some milliseconds now and then, and all
/// threads of a step wait for the one from which they were taken.
class SpareTime {
public:
  /// The thread does not rest while `hurry` is set. `waiters`: the number of processes that wait for each other in each
  /// step and have such a thread each. Used by one thread only.
  SpareTime(const std::atomic<bool> &hurry, int64_t waiters);
  SpareTime(const SpareTime &) = delete;
  SpareTime &operator=(const SpareTime &) = delete;
  ~SpareTime();

  /// To be called after every 100 to 500 us of work. If the thread had to share its core since the last call, it sleeps
  /// so that the threads of all waiters together use about 1/40 of a core: a step takes as much longer as the sum, since
  /// they do not work at the same times.
  void rest();

private:
  struct Spent {
    int64_t working = 0, waiting = 0; ///< nanoseconds on a core, and for one
  };
  Spent spent() const;

  const std::atomic<bool> &hurry;
  const int64_t rests; ///< for each nanosecond of work
  int file; ///< the kernel's account of this thread; negative if there is none: it never rests
  Spent last;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CORE_SPARETIME_H
