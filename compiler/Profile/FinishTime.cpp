#include "compiler/Profile/FinishTime.h"

#include "step/Timeline.h"

#include <map>

using namespace divisi::compiler;

namespace {

/// The items of one message, in order: what has arrived with each send, and the awaits of it.
struct Message {
  std::vector<int> arrivals, awaits;
};
} // namespace

double divisi::compiler::finishTime(const std::vector<std::vector<TimedCall>> &devices, bool runsEmpty) {
  step::Timeline timeline;
  std::map<int64_t, Message> messages;
  for (size_t device = 0; device < devices.size(); ++device) {
    const int computing = 2 * device, communicating = computing + 1;
    std::map<int64_t, int> done; // collectives
    int before = -1;             // on the stream of computation
    for (const TimedCall &timed : devices[device]) {
      const auto &call = *timed.call;
      if (call.kind == "receive")
        continue;
      if (call.kind == "send" || call.collective) {
        before = timeline.add(computing, timed.occupied);
        int item = timeline.add(communicating, timed.time);
        timeline.wait(before, item);
        if (call.kind == "send")
          messages[call.id].arrivals.push_back(item);
        else
          done[call.id] = item;
        continue;
      }
      bool awaits = call.kind == "await";
      before = timeline.add(computing, awaits ? 0 : timed.time);
      if (!awaits)
        continue;
      if (auto collective = done.find(call.id); collective != done.end())
        timeline.wait(collective->second, before);
      else
        messages[call.id].awaits.push_back(before);
    }
  }
  for (const auto &[id, message] : messages) {
    if (message.awaits.size() > message.arrivals.size() ||
        (runsEmpty && message.awaits.size() < message.arrivals.size()))
      return -1;
    for (size_t i = 0; i < message.awaits.size(); ++i)
      timeline.wait(message.arrivals[i], message.awaits[i]);
  }
  return timeline.run() ? timeline.end() : -1;
}
