#include "compiler/Profile/Timeline.h"

#include <algorithm>
#include <deque>
#include <map>

using namespace divisi::compiler;

namespace {

struct Device {
  const std::vector<TimedCall> *calls;
  size_t at = 0;
  double now = 0, network = 0;
  std::map<int64_t, double> done; // when each collective ends
};

/// Runs each device until it waits for a message that has not been sent yet.
class Timeline {
public:
  explicit Timeline(const std::vector<std::vector<TimedCall>> &lists) {
    for (const auto &list : lists)
      devices.push_back({&list});
  }

  double run(bool runsEmpty) {
    for (bool moves = true; moves;) {
      moves = false;
      for (Device &device : devices)
        while (device.at < device.calls->size() && step(device, (*device.calls)[device.at]))
          ++device.at, moves = true;
    }
    for (const auto &[message, queue] : arrivals)
      if (runsEmpty && !queue.empty())
        return -1;
    double end = 0;
    for (const Device &device : devices) {
      if (device.at < device.calls->size())
        return -1;
      end = std::max({end, device.now, device.network});
    }
    return end;
  }

private:
  bool step(Device &device, const TimedCall &timed) {
    const auto &call = *timed.call;
    if (call.kind == "receive")
      return true;
    if (call.kind == "send") {
      device.now += timed.occupied;
      device.network = std::max(device.network, device.now) + timed.time;
      arrivals[call.id].push_back(device.network);
    } else if (call.kind == "await") {
      if (auto it = device.done.find(call.id); it != device.done.end()) {
        device.now = std::max(device.now, it->second);
        return true;
      }
      auto &queue = arrivals[call.id];
      if (queue.empty())
        return false;
      device.now = std::max(device.now, queue.front());
      queue.pop_front();
    } else if (call.collective) {
      device.network = std::max(device.network, device.now) + timed.time;
      device.done[call.id] = device.network;
    } else {
      device.now += timed.time;
    }
    return true;
  }

  std::vector<Device> devices;
  std::map<int64_t, std::deque<double>> arrivals; // by message
};
} // namespace

double divisi::compiler::finishTime(const std::vector<std::vector<TimedCall>> &devices, bool runsEmpty) {
  return Timeline(devices).run(runsEmpty);
}
