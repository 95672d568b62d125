#include "runtime/core/SpareTime.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <fcntl.h>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>

using namespace divisi::runtime;

SpareTime::SpareTime(const std::atomic<bool> &hurry, int64_t waiters)
    : hurry(hurry), rests(40 * waiters - 1), file(open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC)) {
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), 19);
  last = spent();
}

SpareTime::~SpareTime() {
  if (file >= 0)
    close(file);
}

SpareTime::Spent SpareTime::spent() const {
  std::array<char, 96> text = {};
  Spent now;
  long long working = 0, waiting = 0;
  if (file >= 0 && pread(file, text.data(), text.size() - 1, 0) > 0 &&
      std::sscanf(text.data(), "%lld %lld", &working, &waiting) == 2)
    now = {working, waiting};
  return now;
}

void SpareTime::rest() {
  constexpr int64_t tolerated = 20000; // nanoseconds of waiting, without somebody's need
  Spent now = spent();
  if (now.waiting - last.waiting > tolerated && !hurry) {
    using namespace std::chrono;
    const auto until = steady_clock::now() + nanoseconds((now.working - last.working) * rests);
    while (!hurry && steady_clock::now() < until)
      std::this_thread::sleep_for(std::min<nanoseconds>(until - steady_clock::now(), milliseconds(5)));
    now.working = spent().working; // it counts as waiting if the processor is not free then
  }
  last = now;
}
