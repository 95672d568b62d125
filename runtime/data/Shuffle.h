//===- Shuffle.h - the order of samples in an epoch -------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DATA_SHUFFLE_H
#define DIVISI_RUNTIME_DATA_SHUFFLE_H

#include <array>
#include <cstdint>
#include <vector>

namespace divisi::runtime {

/// The permutation of [0, count) for (seed, epoch): the same on every platform and for every rank. `count` < 2^32.
std::vector<uint32_t> permutation(uint64_t seed, uint64_t epoch, uint64_t count);

/// Another permutation of [0, count) for (seed, epoch), whose elements are computed one by one, without memory: a
/// Feistel network on a table of about count positions, row by row. 24 rounds, because chi-square tests find the
/// orders of five and more samples biased after ten, and slightly after 14.
class Permutation {
public:
  Permutation(uint64_t seed, uint64_t epoch, uint64_t count);
  uint64_t at(uint64_t position) const;

private:
  uint64_t count, rows, columns;
  std::array<uint64_t, 24> keys;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_DATA_SHUFFLE_H
