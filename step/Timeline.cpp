#include "step/Timeline.h"

#include <algorithm>

using namespace divisi::step;

int Timeline::add(int stream, double duration) {
  if (stream >= (int)streams.size())
    streams.resize(stream + 1, -1);
  int number = items.size();
  items.push_back({duration, 0, 0, {}});
  wait(streams[stream], number);
  return streams[stream] = number;
}

void Timeline::wait(int earlier, int later) {
  if (earlier < 0)
    return;
  items[earlier].after.push_back(later);
  ++items[later].unmet;
}

bool Timeline::run() {
  std::vector<int> ready; // all that they wait for has ended
  for (size_t item = 0; item < items.size(); ++item)
    if (items[item].unmet == 0)
      ready.push_back(item);
  for (size_t done = 0; done < ready.size(); ++done) {
    last = std::max(last, end(ready[done]));
    for (int later : items[ready[done]].after) {
      items[later].start = std::max(items[later].start, end(ready[done]));
      if (--items[later].unmet == 0)
        ready.push_back(later);
    }
  }
  return ready.size() == items.size();
}
