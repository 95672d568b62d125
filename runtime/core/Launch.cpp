#include "runtime/core/Launch.h"
#include "runtime/core/Context.h"

using namespace divisi::runtime;

void divisi_launch(DivisiContext *context, const DivisiKernel *kernel, void *const *buffers) {
  if (context->accelerator)
    return guarded(context, kernel->name, [&] { context->accelerator->launch(*kernel, buffers); });
  if (context->failed())
    return;
  ObservedCall observed(context, kernel->name);
  forEachPiece(kernel->extent, kernel->grain, context->threads,
               [&](int64_t begin, int64_t end) { kernel->loop(buffers, begin, end); });
}
