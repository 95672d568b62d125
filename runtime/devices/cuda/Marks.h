//===- Marks.h - times of points in streams ---------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DEVICES_CUDA_MARKS_H
#define DIVISI_RUNTIME_DEVICES_CUDA_MARKS_H

#include "runtime/devices/cuda/Driver.h"

#include <utility>
#include <vector>

namespace divisi::runtime::cuda {

/// Events that record when a stream reaches a point.
class Marks {
public:
  explicit Marks(const Driver &driver) : driver(driver) {}
  ~Marks() {
    for (Event event : events)
      driver.destroyEvent(event);
  }
  Marks(const Marks &) = delete;
  Marks &operator=(const Marks &) = delete;

  /// Adds a mark behind all work of the stream and returns its number. `take` reports failures.
  size_t add(Stream stream) noexcept {
    Event event = nullptr;
    if (used < events.size())
      event = events[used];
    else if (driver.createEvent(&event, 0) == 0)
      events.push_back(event);
    else
      failed = true;
    failed = failed || driver.recordEvent(event, stream) != 0;
    return used++;
  }

  /// The seconds from the first mark to each; empty if one failed. The streams must be complete. Removes all marks.
  std::vector<double> take() {
    std::vector<double> seconds;
    for (size_t i = 0; i < used && !failed; ++i) {
      float milliseconds = 0;
      failed = driver.elapsed(&milliseconds, events[0], events[i]) != 0;
      seconds.push_back(1e-3 * milliseconds);
    }
    used = 0;
    return std::exchange(failed, false) ? std::vector<double>() : seconds;
  }

private:
  const Driver &driver;
  std::vector<Event> events;
  size_t used = 0;
  bool failed = false;
};

} // namespace divisi::runtime::cuda

#endif // DIVISI_RUNTIME_DEVICES_CUDA_MARKS_H
