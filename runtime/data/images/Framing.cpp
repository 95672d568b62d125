#include "runtime/data/images/Framing.h"
#include "runtime/core/Hash.h"

#include <algorithm>
#include <cmath>

using namespace divisi::runtime;

namespace {
/// Makes other numbers of a seed than the order of the samples.
constexpr uint64_t purpose = 0x696d616765730000u;

/// Where the middle `part` of `whole` begins, as torchvision rounds it (half to even).
int64_t middle(int64_t whole, int64_t part) {
  return static_cast<int64_t>(std::nearbyint(static_cast<double>(whole - part) / 2));
}
} // namespace

uint64_t Draws::keyOf(uint64_t seed, uint64_t epoch) { return randomStart(seed ^ purpose, epoch); }

Draws::Draws(uint64_t key, int64_t sample) : state(mix64(key + static_cast<uint64_t>(sample) * golden)) {}

uint64_t Draws::bits() { return mix64(state + count++ * golden); }

double Draws::next() { return randomUnit(bits()); }

int64_t Draws::below(int64_t size) {
  return static_cast<int64_t>(randomBelow(bits(), static_cast<uint64_t>(size)));
}

Framing divisi::runtime::middleOf(int64_t imageWidth, int64_t imageHeight, int64_t width, int64_t height,
                                  int64_t shorter) {
  Framing f;
  f.source = {0, 0, imageWidth, imageHeight};
  bool byWidth = shorter > 0 ? imageWidth <= imageHeight : imageWidth * height <= imageHeight * width;
  if (byWidth) {
    f.width = shorter > 0 ? shorter : width;
    f.height = std::max(shorter > 0 ? shorter : height, f.width * imageHeight / imageWidth);
  } else {
    f.height = shorter > 0 ? shorter : height;
    f.width = std::max(shorter > 0 ? shorter : width, f.height * imageWidth / imageHeight);
  }
  f.crop = {middle(f.width, width), middle(f.height, height), width, height};
  return f;
}

Framing divisi::runtime::randomPartOf(int64_t imageWidth, int64_t imageHeight, int64_t width, int64_t height,
                                      Draws &draws) {
  constexpr double least = 0.08, narrow = 3.0 / 4.0, wide = 4.0 / 3.0;
  Framing f{{0, 0, imageWidth, imageHeight}, width, height, {0, 0, width, height}, false};
  double area = static_cast<double>(imageWidth) * static_cast<double>(imageHeight);
  for (int attempt = 0; attempt < 10; ++attempt) {
    double target = area * (least + (1 - least) * draws.next());
    double ratio = std::exp(std::log(narrow) + (std::log(wide) - std::log(narrow)) * draws.next());
    auto w = static_cast<int64_t>(std::nearbyint(std::sqrt(target * ratio)));
    auto h = static_cast<int64_t>(std::nearbyint(std::sqrt(target / ratio)));
    if (w <= 0 || w > imageWidth || h <= 0 || h > imageHeight)
      continue;
    int64_t y = draws.below(imageHeight - h + 1), x = draws.below(imageWidth - w + 1);
    f.source = {x, y, w, h};
    return f;
  }
  // The middle, in a ratio that is allowed. A side of it is not 0: the image is longer than 4/3 in the other direction.
  double ratio = static_cast<double>(imageWidth) / static_cast<double>(imageHeight);
  Box &part = f.source;
  if (ratio < narrow)
    part.height = static_cast<int64_t>(std::nearbyint(static_cast<double>(imageWidth) / narrow));
  else if (ratio > wide)
    part.width = static_cast<int64_t>(std::nearbyint(static_cast<double>(imageHeight) * wide));
  part.x = (imageWidth - part.width) / 2;
  part.y = (imageHeight - part.height) / 2;
  return f;
}
