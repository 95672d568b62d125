#include "step/Prefetch.h"

using namespace divisi::step;

void Prefetch::begin(int64_t all) {
  constexpr int64_t fewestLayers = 16; // so that the next one is a small part of what is not kept
  limit = std::min(bucket, all / fewestLayers);
  current = -1;
}

int Prefetch::add(const Fetch &fetch) {
  if (current < 0 || bytes >= limit || states.count(fetch.state)) {
    layers.push_back({current < 0 ? fetch.user : layers[current].firstUse, fetch.user});
    current = layers.size() - 1;
    bytes = 0;
    states.clear();
  }
  bytes += fetch.bytes;
  states.insert(fetch.state);
  return current;
}
