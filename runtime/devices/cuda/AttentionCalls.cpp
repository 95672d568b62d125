//===- AttentionCalls.cpp - attention of a GPU ----------------------------===//
#include "runtime/devices/cuda/Gpu.h"

using namespace divisi::runtime;
using namespace divisi::runtime::cuda;

void Gpu::attend(AttentionKind kind, const DivisiAttention &params, void *const *buffers) {
  if (!attending)
    attending.emplace(driver, stream);
  attending->compute(kind, params, buffers);
}

void Gpu::attention(const DivisiAttention &params, void *const *buffers) {
  attend(AttentionKind::Forward, params, buffers);
}
void Gpu::attention_grad(const DivisiAttention &params, void *const *buffers) {
  attend(AttentionKind::Gradient, params, buffers);
}
