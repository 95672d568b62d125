//===- Attention.cpp - attention and its gradient -------------------------===//
#include "runtime/devices/cpu/AttentionCall.h"

using namespace divisi::runtime;

static constexpr int attentionService = 110; // beside the kinds of convolutions, and matmuls

static void run(DivisiContext *context, AttentionKind kind, decltype(&Accelerator::attention) onDevice,
                const DivisiAttention *params, void *const *buffers) {
  guarded(context, "attention", [&] {
    if (context->accelerator)
      return (context->accelerator->*onDevice)(*params, buffers);
    auto &entry = context->cache[{attentionService + static_cast<int>(kind), params}];
    if (!entry)
      entry = std::make_unique<AttentionCall>(kind, *params);
    static_cast<AttentionCall &>(*entry).run(context, buffers);
  });
}

void divisi_attention(DivisiContext *context, const DivisiAttention *params, void *const *buffers) {
  run(context, AttentionKind::Forward, &Accelerator::attention, params, buffers);
}
void divisi_attention_grad(DivisiContext *context, const DivisiAttention *params, void *const *buffers) {
  run(context, AttentionKind::Gradient, &Accelerator::attention_grad, params, buffers);
}
