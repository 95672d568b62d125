//===- Turns.h - a lock that threads get in turn ----------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_COMM_TURNS_H
#define DIVISI_RUNTIME_COMM_TURNS_H

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

namespace divisi::runtime {

/// A lock (for std::lock_guard) that is given to the threads in the order in which they ask: a thread that asks again
/// and again, as one does that waits for messages, leaves it to another one that asks now and then. std::mutex does
/// not. A thread that has it may take it again.
class Turns {
public:
  void lock() {
    std::unique_lock lock(mutex);
    if (depth == 0 || owner != std::this_thread::get_id()) {
      uint64_t mine = next++;
      changed.wait(lock, [&] { return mine == current; });
      owner = std::this_thread::get_id();
    }
    ++depth;
  }
  void unlock() {
    {
      std::lock_guard lock(mutex);
      if (--depth > 0)
        return;
      ++current;
    }
    changed.notify_all();
  }

private:
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t next = 0, current = 0;
  int depth = 0; ///< how often `owner` has it
  std::thread::id owner;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_COMM_TURNS_H
