//===- ImageOptions.h - how images are prepared -----------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DATA_IMAGES_IMAGEOPTIONS_H
#define DIVISI_RUNTIME_DATA_IMAGES_IMAGEOPTIONS_H

#include <cstdint>
#include <string_view>
#include <vector>

namespace divisi::runtime {

struct ImageOptions {
  bool crop = false, flip = false;     ///< augmentation: a random part, mirrored or not
  int64_t shorter = 0;                 ///< of the sides before the middle is taken; 0: the image just covers the input
  std::vector<double> mean, deviation; ///< of values from 0 to 1, one or one for each channel; empty: the usual ones
  int workers = 0;                     ///< threads that prepare images; 0: as many as this rank has cores

  /// Whether a flag concerns the images of evaluations, too.
  static bool isOfAll(std::string_view flag) { return flag == "--resize" || flag == "--mean" || flag == "--std"; }
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_DATA_IMAGES_IMAGEOPTIONS_H
