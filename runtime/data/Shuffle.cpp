#include "runtime/data/Shuffle.h"
#include "runtime/core/Hash.h"

#include <cmath>
#include <numeric>
#include <utility>

using namespace divisi::runtime;

std::vector<uint32_t> divisi::runtime::permutation(uint64_t seed, uint64_t epoch, uint64_t count) {
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  uint64_t state = randomStart(seed, epoch);
  // Fisher-Yates. The multiplication maps 32 random bits to [0, i]; its bias is below count / 2^32.
  for (uint64_t i = count; i-- > 1;)
    std::swap(order[i], order[((mix64(state + i * golden) >> 32) * (i + 1)) >> 32]);
  return order;
}

Permutation::Permutation(uint64_t seed, uint64_t epoch, uint64_t size) : count(size) {
  // An even number of rows, so that odd permutations exist.
  rows = 2 * static_cast<uint64_t>(std::ceil(std::sqrt(static_cast<double>(count)) / 2));
  columns = rows > 0 ? (count + rows - 1) / rows : 0;
  for (uint64_t r = 0; r < keys.size(); ++r)
    keys[r] = mix64(randomStart(seed, epoch) + r * golden);
}

uint64_t Permutation::at(uint64_t position) const {
  do {
    uint64_t row = position / columns, column = position % columns;
    for (size_t r = 0; r < keys.size(); r += 2) {
      row = (row + randomBelow(mix64(keys[r] ^ column), rows)) % rows;
      column = (column + randomBelow(mix64(keys[r + 1] ^ row), columns)) % columns;
    }
    position = row * columns + column;
  } while (position >= count); // few positions of the table are outside of [0, count)
  return position;
}
