//===- Resample.h - resizing images -----------------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DATA_IMAGES_RESAMPLE_H
#define DIVISI_RUNTIME_DATA_IMAGES_RESAMPLE_H

#include "runtime/data/images/Pixels.h"

namespace divisi::runtime {

/// A rectangle of pixels.
struct Box {
  int64_t x = 0, y = 0, width = 0, height = 0;
};

/// The part `crop` of the image that results when the part `source` of `image` is resized to `width` x `height`: what
/// Pillow's image.crop(source).resize((width, height), BILINEAR).crop(crop) gives, bit by bit, which is bilinear
/// interpolation with antialiasing: a triangle filter as wide as a pixel of the smaller image, in fixed point. As in
/// Pillow 13 (src/libImaging/Resample.c) rows are resized before columns, unless the height shrinks by more than twice
/// as many pixels as the width; older versions always begin with rows, which changes some values by 1. `crop` must be
/// inside of the result, `source` inside of `image`. `scratch` is memory to use again.
void resample(const Pixels &image, const Box &source, int64_t width, int64_t height, const Box &crop, Pixels &to,
              Pixels &scratch);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_DATA_IMAGES_RESAMPLE_H
