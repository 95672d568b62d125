// JPEG and PNG images.
#include "runtime/data/images/Decode.h"
#include "test/fuzz/parsers/Input.h"

using namespace divisi;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  runtime::Pixels image, scratch;
  for (int64_t channels : {1, 3})
    if (runtime::decodeImage(fuzz::text(data, size), channels, image, scratch).ok())
      fuzz::use(reinterpret_cast<const char *>(image.data.data()), image.data.size());
  return 0;
}
