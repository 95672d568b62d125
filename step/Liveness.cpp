#include "step/Liveness.h"

using namespace divisi::step;

Liveness::Peak Liveness::peak() const {
  Peak peak;
  double live = 0;
  for (size_t i = 0; i + 1 < change.size(); ++i)
    if ((live += change[i]) > peak.bytes)
      peak = {live, (int)i};
  return peak;
}
