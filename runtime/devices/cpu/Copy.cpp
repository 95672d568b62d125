//===- Copy.cpp - bytes from one buffer to another ------------------------===//
#include "runtime/core/Context.h"
#include "runtime/core/Launch.h"

#include <cstring>

using namespace divisi::runtime;

void divisi_copy(DivisiContext *context, const DivisiCopy *params, void *const *buffers) {
  if (context->accelerator)
    return guarded(context, "copy", [&] { context->accelerator->copy(*params, buffers); });
  constexpr int64_t grain = 1 << 18;
  if (context->failed())
    return;
  ObservedCall observed(context, "copy");
  const auto *from = static_cast<const char *>(buffers[0]);
  auto *to = static_cast<char *>(buffers[1]);
  forEachPiece(params->bytes, grain, context->threads, [&](int64_t begin, int64_t end) {
    std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
  });
}
