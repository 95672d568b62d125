#include "runtime/core/Launch.h"
#include "runtime/core/SmallWork.h"

using namespace divisi::runtime;

static constexpr int kernelSites = 101; // beside the kinds of convolutions, and GEMMs

void divisi_launch(DivisiContext *context, const DivisiKernel *kernel, void *const *buffers) {
  if (context->accelerator)
    return guarded(context, kernel->name, [&] { context->accelerator->launch(*kernel, buffers); });
  if (context->failed())
    return;
  ObservedCall observed(context, kernel->name);
  forEachPieceIfFaster(context, kernelSites, kernel, kernel->extent, kernel->grain,
                       [&](int64_t begin, int64_t end) { kernel->loop(buffers, begin, end); });
}
