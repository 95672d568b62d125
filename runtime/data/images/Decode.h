//===- Decode.h - JPEG and PNG images ---------------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DATA_IMAGES_DECODE_H
#define DIVISI_RUNTIME_DATA_IMAGES_DECODE_H

#include "runtime/core/Status.h"
#include "runtime/data/images/Pixels.h"

namespace divisi::runtime {

/// The most pixels of an image, as Pillow limits them: checked before memory is allocated.
constexpr int64_t mostPixels = 178'956'970;

/// The most bytes that libjpeg takes beside the file and the pixels: the coefficients of a progressive image. It is
/// enough for `mostPixels` in colours of half the resolution, as cameras store them.
constexpr int64_t mostJpegBytes = int64_t(512) << 20;
/// The most bytes of a chunk of a PNG file that libpng would read as a whole.
constexpr int64_t mostChunkBytes = int64_t(8) << 20;

/// Decodes the bytes of a JPEG or PNG file, whichever they are, to `channels` (1: gray, 3: RGB), as Pillow does with
/// convert("L") or convert("RGB"): alpha is dropped, colours are weighted by ITU-R 601-2 for gray, and the orientation
/// of a camera (EXIF) is not applied. Of 16 bits the higher eight are taken. `scratch` is memory to use again. An
/// error is the end of a sentence that begins with the file's name.
Status decodeImage(std::string_view bytes, int64_t channels, Pixels &to, Pixels &scratch);

/// The same for either format, in the channels of the file: gray, RGB, or of a JPEG file CMYK as Adobe stores it
/// (inverted).
Status decodeJpeg(std::string_view bytes, Pixels &to);
Status decodePng(std::string_view bytes, Pixels &to);

/// The error of an image with too many pixels; success for others.
Status checkPixels(int64_t width, int64_t height);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_DATA_IMAGES_DECODE_H
