#include "runtime/data/Shuffle.h"
#include "runtime/core/Hash.h"

#include <numeric>
#include <utility>

std::vector<uint32_t> divisi::runtime::permutation(uint64_t seed, uint64_t epoch, uint64_t count) {
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  uint64_t state = mix64(seed) ^ mix64(~epoch);
  // Fisher-Yates. The multiplication maps 32 random bits to [0, i]; its bias is below count / 2^32.
  for (uint64_t i = count; i-- > 1;)
    std::swap(order[i], order[((mix64(state + i * 0x9e3779b97f4a7c15u) >> 32) * (i + 1)) >> 32]);
  return order;
}
