// Files of tokens. The first byte selects the windows, and how tokens are stored and read.
#include "runtime/data/TokenFiles.h"
#include "test/fuzz/parsers/Input.h"

#include <cstdlib>
#include <cstring>

using namespace divisi;
using namespace divisi::runtime;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 1)
    return 0;
  const int64_t window = 1 + data[0] % 8, shift = data[0] / 8 % 2;
  const DataType stored = data[0] & 16 ? DataType::U32 : DataType::U16,
                 type = data[0] & 32 ? DataType::I32 : DataType::I64;
  auto files = TokenFiles::open({fuzz::fileOf(fuzz::text(data + 1, size - 1))}, stored);
  if (!files.ok())
    return 0;
  const TokenFiles::File &file = (*files)->files().front();
  file.looksWide();
  TokenWindows windows(*files, window, shift);
  windows.willNeedAll();
  // The tokens behind a header are all that the file has; without one the whole file is tokens.
  const uint8_t *tokens = data + 1 + (file.hasHeader ? 1024 : 0);
  const auto width = static_cast<size_t>(widthOf(file.type));
  for (int64_t sample = 0; sample < windows.samples(); ++sample) {
    int64_t row[8] = {};
    windows.willNeed(sample * window, window);
    if (!windows.read(sample * window, window, reinterpret_cast<char *>(row), type).ok())
      continue;
    for (int64_t i = 0; i < window; ++i) {
      uint32_t expected = 0;
      std::memcpy(&expected, tokens + static_cast<size_t>(sample * window + i + shift) * width, width);
      if (readInteger(reinterpret_cast<char *>(row) + i * widthOf(type), type) != expected)
        std::abort();
    }
  }
  if (windows.samples() > 0)
    windows.describe(window - 1, 7);
  windows.release();
  return 0;
}

/// In most cases makes the number of tokens in a header fit the file.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  size = LLVMFuzzerMutate(data, size, most);
  constexpr int32_t heads[][2] = {{20240520, 1}, {20240801, 7}};
  constexpr size_t header = 1 + 1024;
  if (seed % 4 == 0 || size < header)
    return size;
  const bool isWide = seed % 8 < 4;
  auto tokens = static_cast<int32_t>((size - header) / (isWide ? 4 : 2));
  std::memcpy(data + 1, heads[isWide], sizeof heads[isWide]);
  std::memcpy(data + 9, &tokens, sizeof tokens);
  return seed % 16 == 1 ? size : header + static_cast<size_t>(tokens) * (isWide ? 4 : 2);
}
