//===- Framing.h - which part of an image is fed ----------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DATA_IMAGES_FRAMING_H
#define DIVISI_RUNTIME_DATA_IMAGES_FRAMING_H

#include "runtime/data/images/Resample.h"

namespace divisi::runtime {

/// How an image becomes one of the input's size: `source` is resized to `width` x `height`, of which `crop` is taken,
/// and mirrored if `flip`.
struct Framing {
  Box source;
  int64_t width = 0, height = 0;
  Box crop;
  bool flip = false;
};

/// Random numbers of one sample in one epoch: a function of the key of (seed, epoch) and the
/// index of the sample alone.
class Draws {
public:
  static uint64_t keyOf(uint64_t seed, uint64_t epoch);
  Draws(uint64_t key, int64_t sample);
  /// The next number in [0, 1).
  double next();
  /// The next whole number in [0, count).
  int64_t below(int64_t count);

private:
  uint64_t bits();
  uint64_t state, count = 0;
};

/// The middle, as torchvision's Resize and CenterCrop: the shorter side becomes `shorter` pixels long (0: as many that
/// the image just covers the input), and the middle of `width` x `height` is taken. `shorter` is at least both.
Framing middleOf(int64_t imageWidth, int64_t imageHeight, int64_t width, int64_t height, int64_t shorter);

/// A random part, as torchvision's RandomResizedCrop with its usual scale (0.08 to 1) and ratio (3/4 to 4/3).
Framing randomPartOf(int64_t imageWidth, int64_t imageHeight, int64_t width, int64_t height, Draws &draws);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_DATA_IMAGES_FRAMING_H
