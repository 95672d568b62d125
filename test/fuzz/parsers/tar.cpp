// Tar files of images.
#include "runtime/data/images/ImageList.h"
#include "test/fuzz/parsers/Input.h"

#include <cstring>

using namespace divisi;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string path = fuzz::temporary() + "/images.tar", bytes;
  fuzz::write(path, fuzz::text(data, size));
  auto list = runtime::ImageList::open({path});
  for (int64_t i = 0; list.ok() && i < (*list)->size(); ++i)
    if ((*list)->read(i, bytes).ok())
      fuzz::use(bytes.data(), bytes.size());
  return 0;
}

/// In most cases makes the sums of the headers right; otherwise nothing behind them would be reached.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  size = LLVMFuzzerMutate(data, size, most);
  for (size_t at = 0; at + 512 <= size && seed % 4 != 0; at += 512) {
    unsigned sum = 8 * ' ';
    for (size_t i = 0; i < 512; ++i)
      sum += i >= 148 && i < 156 ? 0 : data[at + i];
    if (sum == 8 * ' ')
      continue; // the end
    for (size_t i = 0; i < 6; ++i, sum /= 8)
      data[at + 153 - i] = static_cast<uint8_t>('0' + sum % 8);
    std::memcpy(data + at + 154, "\0 ", 2);
  }
  return size;
}
