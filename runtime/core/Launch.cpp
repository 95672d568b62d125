#include "runtime/core/Launch.h"
#include "runtime/core/Context.h"

using namespace divisi::runtime;

void divisi_launch(DivisiContext *context, DivisiKernel kernel, void *const *buffers, int64_t extent, int64_t grain) {
  if (context->failed())
    return;
  RecordedCall recorded(context->recorder);
  forEachPiece(extent, grain, context->threads, [&](int64_t begin, int64_t end) { kernel(buffers, begin, end); });
}
