// The log of a training that is resumed after the step in the first byte: lines of later steps are left out.
#include "runtime/main/Log.h"
#include "test/fuzz/parsers/Input.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

using namespace divisi;
using namespace divisi::runtime;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 1)
    return 0;
  static const std::string path = fuzz::temporary() + "/log.jsonl";
  const int64_t step = data[0] % 16, total = data[0] / 16;
  auto resumed = [&] {
    if (!Log::open(path, "", step, total).ok())
      std::abort(); // any text may be there
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  };
  fuzz::write(path, fuzz::text(data + 1, size - 1));
  std::string kept = resumed();
  if (kept.size() > size - 1 || (!kept.empty() && kept.back() != '\n'))
    std::abort();
  if (size % 4 == 0 && resumed() != kept)
    std::abort();
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  return size < 2 ? LLVMFuzzerMutate(data, size, most) : 1 + fuzz::mutateJson(data + 1, size - 1, most - 1, seed);
}
