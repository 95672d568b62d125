#include "runtime/comm/Transport.h"

#include <algorithm>
#include <chrono>
#include <thread>

using namespace divisi::runtime;

void Transport::send(int to, const void *data, size_t bytes) {
  if (bytes == 0)
    return;
  bytes_.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed);
  messages_.fetch_add(1, std::memory_order_relaxed);
  startSend(to, data, bytes);
}

void Transport::receive(int from, void *data, size_t bytes) {
  if (bytes > 0)
    startReceive(from, data, bytes);
}

Status Transport::wait(const std::function<Status()> &check) {
  constexpr int yields = 200, longest = 100;
  int sleep = 10; // microseconds
  for (int tries = 0;; ++tries) {
    if (failed()) {
      cancel();
      return status();
    }
    if (poll())
      return {};
    if (background)
      background();
    if (tries < yields) {
      std::this_thread::yield();
      continue;
    }
    if (Status status = check ? check() : Status(); !status.ok())
      fail(status);
    std::this_thread::sleep_for(std::chrono::microseconds(sleep));
    sleep = std::min(longest, sleep * 2);
  }
}

void Transport::note(const Status &why) {
  std::lock_guard lock(mutex);
  if (status_.ok())
    status_ = why.ok() ? failure("another rank has ended") : why;
  failed_.store(true, std::memory_order_release);
}

Status Transport::status() const {
  std::lock_guard lock(mutex);
  return status_;
}
