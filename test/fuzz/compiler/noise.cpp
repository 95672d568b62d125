// Logs that `divisi plan --log` reads. An error is one line.
#include "compiler/Report/BatchAdvice.h"
#include "test/fuzz/compiler/Tokens.h"

#include "llvm/Support/raw_ostream.h"

#include <cstdlib>

using namespace divisi;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto noise = compiler::MeasuredNoise::read(fuzz::fileOf(fuzz::text(data, size)));
  if (!noise) {
    std::string said = llvm::toString(noise.takeError());
    if (said.empty() || said.find('\n') != said.npos)
      std::abort();
    return 0;
  }
  if (!(noise->scale() >= 0) || noise->first < 1 || noise->last < 1)
    std::abort(); // accepted, although invalid
  compiler::BatchAdvice advice("batch", "log.jsonl", *noise,
                               {{8, 8, 0.5, "small"}, {16, 16, 0.75, "large"}, {32, 32, 1, "none", false}}, 0);
  std::string text;
  llvm::raw_string_ostream out(text);
  advice.print(out);
  out << llvm::json::Value(advice.describe());
  if (advice.best() < 0 || advice.best() > 1)
    std::abort();
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  return seed % 2 ? fuzz::mutateJson(data, size, most, seed / 2) : fuzz::mutateTokens(data, size, most, seed);
}
