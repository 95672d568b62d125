// JPEG and PNG images.
#include "runtime/data/images/Decode.h"
#include "test/fuzz/parsers/Input.h"

#include <cstring>
#include <zlib.h>

using namespace divisi;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  runtime::Pixels image, scratch;
  for (int64_t channels : {1, 3})
    if (runtime::decodeImage(fuzz::text(data, size), channels, image, scratch).ok())
      fuzz::use(reinterpret_cast<const char *>(image.data.data()), image.data.size());
  return 0;
}

namespace {
void makeSmall(uint8_t *bigEndian, size_t bytes) { std::memset(bigEndian, 0, bytes - 1); }

void mendPng(uint8_t *data, size_t size, bool isSmall) {
  for (size_t at = 8, length = 0; at + 12 <= size; at += 12 + length) {
    uint8_t *chunk = data + at;
    length = size_t(chunk[0]) << 24 | chunk[1] << 16 | chunk[2] << 8 | chunk[3];
    if (length > size - at - 12)
      return;
    if (isSmall && length >= 8 && std::memcmp(chunk + 4, "IHDR", 4) == 0) {
      makeSmall(chunk + 8, 4);
      makeSmall(chunk + 12, 4);
    }
    uLong sum = crc32(0, chunk + 4, static_cast<uInt>(length + 4));
    for (int i = 0; i < 4; ++i)
      chunk[8 + length + i] = static_cast<uint8_t>(sum >> (24 - 8 * i));
  }
}

void makeJpegSmall(uint8_t *data, size_t size) {
  for (size_t at = 2; at + 9 <= size && data[at] == 0xff;) {
    uint8_t kind = data[at + 1];
    if (kind >= 0xc0 && kind <= 0xcf && (kind % 4 != 0 || kind == 0xc0)) { // frames; c4, c8 and cc are tables
      makeSmall(data + at + 5, 2);
      makeSmall(data + at + 7, 2);
    }
    at += 2 + (size_t(data[at + 2]) << 8 | data[at + 3]);
  }
}
} // namespace

/// In most cases images are small, since large ones are slow, and PNG's checksums are right.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  size = LLVMFuzzerMutate(data, size, most);
  const bool isSmall = seed % 64 != 0;
  if (size < 8 || seed % 16 == 1)
    return size;
  if (std::memcmp(data, "\x89PNG", 4) == 0)
    mendPng(data, size, isSmall);
  else if (isSmall)
    makeJpegSmall(data, size);
  return size;
}
