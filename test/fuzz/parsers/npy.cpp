// NumPy arrays: header and contents.
#include "runtime/data/NpyFile.h"
#include "test/fuzz/parsers/Input.h"

#include <cstring>

using namespace divisi;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto file = runtime::NpyFile::open(fuzz::fileOf(fuzz::text(data, size)));
  if (file.ok()) {
    fuzz::use(file->data(), file->bytes());
    file->willNeed(0, file->bytes());
  }
  return 0;
}

/// In most cases makes the header's length in the file fit the header; otherwise nothing behind it would be reached.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  size = LLVMFuzzerMutate(data, size, most);
  const auto *end = size > 12 ? static_cast<const uint8_t *>(std::memchr(data + 12, '\n', size - 12)) : nullptr;
  if (end && seed % 4 != 0) {
    bool old = data[6] == 1;
    auto length = static_cast<uint32_t>(end + 1 - data - (old ? 10 : 12));
    std::memcpy(data, "\x93NUMPY", 6);
    std::memcpy(data + 8, &length, old ? 2 : 4);
  }
  return size;
}
