//===- ImageSamples.h - images and their labels as samples ------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_DATA_IMAGES_IMAGESAMPLES_H
#define DIVISI_RUNTIME_DATA_IMAGES_IMAGESAMPLES_H

#include "runtime/data/DataFile.h"
#include "runtime/data/images/ImageList.h"
#include "runtime/data/images/ImageOptions.h"
#include "runtime/data/images/Pixels.h"
#include "runtime/data/images/SampleWorkers.h"

#include <array>

namespace divisi::runtime {

/// What an input takes for an image.
struct ImageForm {
  int64_t channels = 3, height = 0, width = 0;
  bool channelsFirst = true;
  DataType type = DataType::F32;

  /// The form of an input whose samples have this shape: [channels, height, width], [height, width, channels] or
  /// [height, width] with one channel or three; null for others, and for types that do not hold 0 to 255.
  static std::optional<ImageForm> of(const Shape &sample, DataType type);
  int64_t elements() const { return channels * height * width; }
};

/// Images of an input's size. Threads prepare those that are expected.
class ImageSamples : public DataFile {
public:
  ImageSamples(std::shared_ptr<const ImageList> list, const ImageForm &form);

  const ImageForm &form() const { return shape; }
  /// Prepares images in this way, before any are expected.
  void use(const ImageOptions &options);
  /// Draws the augmentation of an epoch.
  void draw(uint64_t seed, uint64_t epoch);
  /// The samples that will be read, the next one first.
  void expect(const std::vector<int64_t> &samples) const { workers->expect(samples); }
  /// "resized to 224 x 224, ...", for a message.
  std::string description() const;

  const std::string &path() const override { return list->path(); }
  int64_t samples() const override { return list->size(); }
  Status read(int64_t from, int64_t count, char *to, DataType type) const override;
  std::string describe(int64_t element, int64_t value) const override;

private:
  /// What an input takes of an image; an error names it.
  Status prepare(int64_t sample, std::vector<char> &to) const;
  /// The same; an error is the end of a sentence that begins with the name.
  Status make(int64_t sample, std::vector<char> &to) const;
  /// Writes the pixels in the input's type and order.
  void write(const Pixels &pixels, bool flip, char *to) const;
  void makeTables();

  std::shared_ptr<const ImageList> list;
  ImageForm shape;
  ImageOptions options;
  std::array<std::vector<char>, 3> tables; ///< the element of each value of a channel
  uint64_t key = 0;                        ///< of the epoch's random numbers
  std::unique_ptr<SampleWorkers> workers;
};

/// The labels of images.
class ImageLabels : public DataFile {
public:
  explicit ImageLabels(std::shared_ptr<const ImageList> list) : list(std::move(list)) {}

  const std::string &path() const override { return list->path(); }
  int64_t samples() const override { return list->size(); }
  Status read(int64_t from, int64_t count, char *to, DataType type) const override;
  std::string describe(int64_t element, int64_t value) const override;

private:
  std::shared_ptr<const ImageList> list;
};

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_DATA_IMAGES_IMAGESAMPLES_H
