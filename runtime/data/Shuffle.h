//===- Shuffle.h - the order of samples in an epoch -------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DATA_SHUFFLE_H
#define DIVISI_RUNTIME_DATA_SHUFFLE_H

#include <cstdint>
#include <vector>

namespace divisi::runtime {

/// The permutation of [0, count) for (seed, epoch): the same on every platform and for every rank. `count` < 2^32.
std::vector<uint32_t> permutation(uint64_t seed, uint64_t epoch, uint64_t count);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_DATA_SHUFFLE_H
