//===- Pixels.h - a decoded image -------------------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DATA_IMAGES_PIXELS_H
#define DIVISI_RUNTIME_DATA_IMAGES_PIXELS_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace divisi::runtime {

/// Pixels of 8 bits, row by row from the top; the channels of a pixel are neighbours: gray, or red, green and blue.
struct Pixels {
  int64_t width = 0, height = 0, channels = 0;
  std::vector<uint8_t> data;

  void resize(int64_t newWidth, int64_t newHeight, int64_t newChannels) {
    width = newWidth, height = newHeight, channels = newChannels;
    data.resize(static_cast<size_t>(width * height * channels));
  }
  /// Frees the memory of a large image.
  void keepAtMost(size_t bytes) {
    if (data.capacity() > bytes)
      *this = Pixels();
  }
  uint8_t *row(int64_t y) { return data.data() + y * width * channels; }
  const uint8_t *row(int64_t y) const { return data.data() + y * width * channels; }
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_DATA_IMAGES_PIXELS_H
