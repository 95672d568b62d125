#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

/// Work of a stream; returns a code of the driver.
using Work = std::function<int()>;

/// Runs a stream's work on a thread of its own, from its first message between two ranks on: these messages wait for
/// each other while the host continues.
class Worker {
public:
  static constexpr int working = 600; ///< the driver's code for work that is not done

  Worker() : thread([this] { work(); }) {}
  ~Worker() {
    {
      std::lock_guard lock(mutex);
      ends = true;
    }
    changed.notify_all();
    thread.join();
  }
  size_t give(Work work) {
    std::lock_guard lock(mutex);
    queue.push_back(std::move(work));
    changed.notify_all();
    return ++given;
  }
  /// The code of the work up to a ticket; working if it is not done.
  int codeOf(size_t ticket) {
    std::lock_guard lock(mutex);
    return failed != 0 ? failed : done >= ticket ? 0 : working;
  }
  int all() {
    std::lock_guard lock(mutex);
    return failed != 0 ? failed : done == given ? 0 : working;
  }
  int wait(size_t ticket) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return failed != 0 || done >= ticket; });
    return failed;
  }
  void waitForAll() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return failed != 0 || done == given; });
  }

private:
  void work() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return ends || !queue.empty(); });
      if (queue.empty())
        return;
      Work next = std::move(queue.front());
      queue.pop_front();
      lock.unlock();
      int code = next();
      lock.lock();
      failed = failed != 0 ? failed : code;
      ++done;
      changed.notify_all();
    }
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Work> queue;
  size_t given = 0, done = 0;
  int failed = 0;
  bool ends = false;
  std::thread thread;
};
