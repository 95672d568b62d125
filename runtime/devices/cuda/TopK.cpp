//===- TopK.cpp - the largest values, by the host -------------------------===//
#include "runtime/devices/cuda/Gpu.h"

using namespace divisi::runtime;
using namespace divisi::runtime::cuda;

void Gpu::top_k(const DivisiTopK &params, void *const *buffers) {
  auto runs = static_cast<size_t>(params.outer * params.inner), width = static_cast<size_t>(params.width);
  auto k = static_cast<size_t>(params.k);
  onThisProcessor(buffers, {runs * static_cast<size_t>(params.extent) * width, runs * k * width, runs * k * 8}, 1, 1,
                  [&](DivisiContext *cpu, void *const *host) { divisi_top_k(cpu, &params, host); });
}
