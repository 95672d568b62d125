// Calibrations of machines. What is accepted and written is accepted again, and is the same.
#include "compiler/Profile/Calibrations.h"
#include "test/fuzz/compiler/Tokens.h"

#include <cstdlib>

using namespace divisi;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto calibrations = compiler::Calibrations::read(fuzz::fileOf(fuzz::text(data, size)));
  if (!calibrations) {
    std::string said = llvm::toString(calibrations.takeError());
    if (said.empty() || said.find('\n') != said.npos)
      std::abort(); // an error is one line
    return 0;
  }
  (void)calibrations->machines.count(compiler::nameOfThisMachine());
  (void)compiler::Calibrations::defaultFile();
  std::string out = fuzz::temporary() + "/calibration.json";
  if (calibrations->write(out))
    std::abort();
  auto again = compiler::Calibrations::read(out);
  if (!again || again->machines.size() != calibrations->machines.size())
    std::abort();
  for (const auto &[name, figures] : calibrations->machines)
    if (auto found = again->machines.find(name); found == again->machines.end() || found->second.all.flops != figures.all.flops)
      std::abort();
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  return seed % 2 ? fuzz::mutateJson(data, size, most, seed / 2) : fuzz::mutateTokens(data, size, most, seed);
}
