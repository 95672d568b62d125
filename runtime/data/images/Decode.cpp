#include "runtime/data/images/Decode.h"
#include "divisi/file_kind.h"

using namespace divisi;
using namespace divisi::runtime;

namespace {
/// a * b / 255, rounded.
int scaled(int a, int b) {
  int product = a * b + 128;
  return ((product >> 8) + product) >> 8;
}

/// CMYK as Adobe stores it, to RGB: by Pillow's formulas.
void fromCmyk(const Pixels &from, Pixels &to) {
  to.resize(from.width, from.height, 3);
  for (size_t i = 0, count = from.data.size() / 4; i < count; ++i) {
    const uint8_t *in = from.data.data() + 4 * i;
    int white = in[3];
    for (int c = 0; c < 3; ++c)
      to.data[3 * i + static_cast<size_t>(c)] = static_cast<uint8_t>(std::max(0, white - scaled(255 - in[c], white)));
  }
}

void fromGray(const Pixels &from, Pixels &to) {
  to.resize(from.width, from.height, 3);
  for (size_t i = 0; i < from.data.size(); ++i)
    to.data[3 * i] = to.data[3 * i + 1] = to.data[3 * i + 2] = from.data[i];
}

/// ITU-R 601-2 luma in fixed point, as Pillow rounds it.
void toGray(const Pixels &from, Pixels &to) {
  to.resize(from.width, from.height, 1);
  for (size_t i = 0; i < to.data.size(); ++i) {
    const uint8_t *in = from.data.data() + 3 * i;
    to.data[i] = static_cast<uint8_t>((in[0] * 19595 + in[1] * 38470 + in[2] * 7471 + 0x8000) >> 16);
  }
}
} // namespace

Status divisi::runtime::checkPixels(int64_t width, int64_t height) {
  if (width > 0 && height > 0 && width <= mostPixels / height)
    return {};
  return failure("has ", width, " x ", height, " pixels; images have from 1 to ", mostPixels);
}

Status divisi::runtime::decodeImage(std::string_view bytes, int64_t channels, Pixels &to, Pixels &scratch) {
  Status status;
  if (bytes.starts_with("\xff\xd8\xff"))
    status = decodeJpeg(bytes, to);
  else if (bytes.starts_with("\x89PNG\r\n\x1a\n"))
    status = decodePng(bytes, to);
  else if (FileKind kind = kindOfFile(bytes); kind != FileKind::unknown && kind != FileKind::image)
    return failure("is no JPEG or PNG image; it looks like ", nameOf(kind));
  else
    return failure("is no JPEG or PNG image", kind == FileKind::image ? ": convert it to one" : "");
  if (!status.ok())
    return status;
  if (to.channels == 4) {
    fromCmyk(to, scratch);
    std::swap(to, scratch);
  }
  if (to.channels != channels) {
    (channels == 1 ? toGray : fromGray)(to, scratch);
    std::swap(to, scratch);
  }
  return {};
}
