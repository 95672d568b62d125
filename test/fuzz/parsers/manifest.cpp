// The description of a program, as it is in executables and dumps.
#include "runtime/core/Manifest.h"
#include "test/fuzz/parsers/Input.h"

using namespace divisi;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto manifest = runtime::parseManifest(fuzz::text(data, size), 4096);
  if (!manifest.ok())
    return 0;
  manifest->identity();
  int64_t ranks = std::min<int64_t>(manifest->mesh.size(), 64);
  for (int64_t rank = 0; rank < ranks; ++rank) {
    runtime::Manifest mine = *manifest;
    mine.localize(rank);
    mine.table("train");
    mine.longestLag();
    for (const auto &state : mine.state)
      if (state.here)
        mine.sliceOf(state);
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  return fuzz::mutateJson(data, size, most, seed);
}
