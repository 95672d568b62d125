//===- Turns.h - a fair lock ------------------------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_COMM_TURNS_H
#define DIVISI_RUNTIME_COMM_TURNS_H

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

namespace divisi::runtime {

/// A fair lock (for std::lock_guard): threads get it in the order in which they request it. A thread that takes it in a
/// loop, as one that polls for messages, lets other threads have it, which std::mutex does not ensure. The lock is
/// recursive.
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
  int depth = 0; ///< how often `owner` holds it
  std::thread::id owner;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_COMM_TURNS_H
