// Profiles by layers, in JSON or as PipeDream writes them. What is accepted and written is accepted again.
#include "passes/Planning/Pipeline/LayerProfile.h"
#include "test/fuzz/compiler/Tokens.h"

#include "llvm/Support/raw_ostream.h"

#include <cstdlib>

using namespace divisi;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto profile = planning::parseLayerProfile(fuzz::text(data, size), "layers.json");
  if (!profile) {
    std::string said = llvm::toString(profile.takeError());
    if (said.empty() || said.find('\n') != said.npos)
      std::abort(); // an error is one line
    return 0;
  }
  std::string written;
  llvm::raw_string_ostream out(written);
  planning::writeLayerProfile(*profile, out);
  if (auto again = planning::parseLayerProfile(written, "again.json"); !again) {
    llvm::errs() << llvm::toString(again.takeError()) << "\n" << written;
    std::abort();
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  return seed % 2 ? fuzz::mutateJson(data, size, most, seed / 2) : fuzz::mutateTokens(data, size, most, seed);
}
