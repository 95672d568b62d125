//===- Attention.cpp - attention and its gradient -------------------------===//
#include "runtime/core/Launch.h"
#include "runtime/devices/cpu/AttentionCall.h"
#include "runtime/devices/cpu/Blas.h"

using namespace divisi::runtime;

static void run(DivisiContext *context, AttentionKind kind, decltype(&Accelerator::attention) onDevice,
                const DivisiAttention *params, void *const *buffers) {
  guarded(context, "attention", [&] {
    if (context->accelerator)
      return (context->accelerator->*onDevice)(*params, buffers);
    prepareBlas(context);
    AttentionCall call(kind, *params, buffers);
    int64_t heads = params->batch * params->heads, threads = context->threads;
    if (heads <= 0)
      return;
    size_t bytes = call.scratchBytes();
    char *scratch = context->scratch.reserve(bytes * static_cast<size_t>(std::min(heads, threads)));
    // One piece for each thread, even if there are fewer heads: OpenBLAS then stays on the calling thread, and sums do
    // not depend on the number of threads.
    forEachPiece(threads, 1, context->threads, [&](int64_t first, int64_t last) {
      for (int64_t thread = first; thread < last; ++thread) {
        auto [begin, end] = pieceOf(heads, thread, threads);
        for (int64_t head = begin; head < end; ++head)
          call.run(head, scratch + bytes * static_cast<size_t>(thread));
      }
    });
  });
}

void divisi_attention(DivisiContext *context, const DivisiAttention *params, void *const *buffers) {
  run(context, AttentionKind::Forward, &Accelerator::attention, params, buffers);
}
void divisi_attention_grad(DivisiContext *context, const DivisiAttention *params, void *const *buffers) {
  run(context, AttentionKind::Gradient, &Accelerator::attention_grad, params, buffers);
}
