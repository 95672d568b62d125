//===- GemmEpilogue.h - what follows a product ------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DEVICES_CPU_GEMMEPILOGUE_H
#define DIVISI_RUNTIME_DEVICES_CPU_GEMMEPILOGUE_H

#include "runtime/core/Epilogue.h"

#include <cstddef>
#include <vector>

namespace divisi::runtime {

/// The bytes of each buffer without the workspace; 0 for operands of the product that `finishEpilogue` does not read.
std::vector<size_t> sizesAfterProduct(const DivisiGemmEpilogue &p);

/// Computes on this processor what follows the product, which is in the first result.
void finishEpilogue(const DivisiGemmEpilogue &p, void *const *buffers, int threads);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_DEVICES_CPU_GEMMEPILOGUE_H
