#include "runtime/data/images/ImageSamples.h"
#include "runtime/data/images/Decode.h"
#include "runtime/data/images/Framing.h"

#include <cstring>

using namespace divisi::runtime;

namespace {
/// Of the images of ImageNet, with which most published networks were trained.
constexpr std::array<double, 3> usualMean = {0.485, 0.456, 0.406}, usualDeviation = {0.229, 0.224, 0.225};

/// A thread keeps the memory of an image for the next one, if it is not more than this.
constexpr size_t mostKept = size_t(64) << 20;

/// The numbers of a flag for each channel.
std::vector<double> perChannel(const std::vector<double> &given, const std::array<double, 3> &usual, double gray,
                               int64_t channels) {
  if (given.size() == 1)
    return std::vector<double>(static_cast<size_t>(channels), given[0]);
  if (!given.empty())
    return given;
  return channels == 3 ? std::vector<double>(usual.begin(), usual.end()) : std::vector<double>{gray};
}

template <typename Element>
void writeEach(const Pixels &pixels, bool flip, bool channelsFirst, const std::array<std::vector<char>, 3> &tables,
               char *to) {
  int64_t width = pixels.width, channels = pixels.channels, plane = channelsFirst ? width * pixels.height : 1;
  int64_t step = channelsFirst ? 1 : channels;
  auto *out = reinterpret_cast<Element *>(to);
  for (int64_t c = 0; c < channels; ++c) {
    const auto *table = reinterpret_cast<const Element *>(tables[static_cast<size_t>(c)].data());
    for (int64_t y = 0; y < pixels.height; ++y) {
      const uint8_t *in = pixels.row(y) + c + (flip ? (width - 1) * channels : 0);
      Element *row = out + c * plane + y * width * step;
      for (int64_t x = 0; x < width; ++x, in += flip ? -channels : channels)
        row[x * step] = table[*in];
    }
  }
}
} // namespace

std::optional<ImageForm> ImageForm::of(const Shape &sample, DataType type) {
  auto isCount = [](int64_t channels) { return channels == 1 || channels == 3; };
  ImageForm form;
  form.type = type;
  if (sample.size() == 2)
    form.channels = 1, form.height = sample[0], form.width = sample[1];
  else if (sample.size() == 3 && isCount(sample[0]))
    form.channels = sample[0], form.height = sample[1], form.width = sample[2];
  else if (sample.size() == 3 && isCount(sample[2]))
    form.channels = sample[2], form.height = sample[0], form.width = sample[1], form.channelsFirst = false;
  else
    return std::nullopt;
  bool holdsPixels = type != DataType::BOOL && type != DataType::I8; // 0 to 255
  return form.height > 0 && form.width > 0 && holdsPixels ? std::optional(form) : std::nullopt;
}

ImageSamples::ImageSamples(std::shared_ptr<const ImageList> from, const ImageForm &form)
    : list(std::move(from)), shape(form) {
  use({});
}

void ImageSamples::use(const ImageOptions &chosen) {
  options = chosen;
  makeTables();
  workers = std::make_unique<SampleWorkers>(
      std::max(1, options.workers), [this](int64_t sample, std::vector<char> &to) { return prepare(sample, to); });
}

void ImageSamples::makeTables() {
  std::vector<double> mean = perChannel(options.mean, usualMean, 0, shape.channels);
  std::vector<double> deviation = perChannel(options.deviation, usualDeviation, 1, shape.channels);
  int64_t width = widthOf(shape.type);
  for (size_t c = 0; c < static_cast<size_t>(shape.channels); ++c) {
    tables[c].resize(static_cast<size_t>(256 * width));
    for (int value = 0; value < 256; ++value) {
      char *to = tables[c].data() + value * width;
      // In fp32, as torchvision's ToTensor and Normalize compute.
      float number =
          (static_cast<float>(value) / 255.0F - static_cast<float>(mean[c])) / static_cast<float>(deviation[c]);
      if (isFloat(shape.type))
        writeNumber(to, shape.type, number);
      else
        writeInteger(to, shape.type, value);
    }
  }
}

void ImageSamples::draw(uint64_t seed, uint64_t epoch) {
  if (!options.crop && !options.flip)
    return;
  workers->clear();
  key = Draws::keyOf(seed, epoch);
}

Status ImageSamples::prepare(int64_t sample, std::vector<char> &to) const {
  Status status;
  try {
    status = make(sample, to);
  } catch (const std::bad_alloc &) {
    status = failure("needs more memory than there is");
  }
  return status.ok() ? status : failure("'", list->nameOf(sample), "' ", status.message());
}

Status ImageSamples::make(int64_t sample, std::vector<char> &to) const {
  thread_local std::string bytes;
  thread_local Pixels image, part, scratch;
  if (bytes.capacity() > mostKept)
    std::string().swap(bytes); // of the image before
  Status status = list->read(sample, bytes);
  if (status.ok())
    status = decodeImage(bytes, shape.channels, image, scratch);
  if (!status.ok())
    return status;
  Draws draws(key, sample);
  Framing framing = options.crop ? randomPartOf(image.width, image.height, shape.width, shape.height, draws)
                                 : middleOf(image.width, image.height, shape.width, shape.height, options.shorter);
  framing.flip = options.flip && draws.next() < 0.5;
  resample(image, framing.source, framing.width, framing.height, framing.crop, part, scratch);
  to.resize(static_cast<size_t>(shape.elements() * widthOf(shape.type)));
  write(part, framing.flip, to.data());
  for (Pixels *pixels : {&image, &part, &scratch})
    pixels->keepAtMost(mostKept);
  return {};
}

void ImageSamples::write(const Pixels &pixels, bool flip, char *to) const {
  switch (widthOf(shape.type)) {
  case 1:
    return writeEach<uint8_t>(pixels, flip, shape.channelsFirst, tables, to);
  case 2:
    return writeEach<uint16_t>(pixels, flip, shape.channelsFirst, tables, to);
  case 4:
    return writeEach<uint32_t>(pixels, flip, shape.channelsFirst, tables, to);
  default:
    return writeEach<uint64_t>(pixels, flip, shape.channelsFirst, tables, to);
  }
}

Status ImageSamples::read(int64_t from, int64_t count, char *to, DataType type) const {
  Result<const std::vector<char> *> prepared = workers->take(from / shape.elements());
  if (!prepared.ok())
    return prepared.status();
  int64_t width = widthOf(type);
  std::memcpy(to, (*prepared)->data() + from % shape.elements() * width, static_cast<size_t>(count * width));
  return {};
}

std::string ImageSamples::describe(int64_t element, int64_t value) const {
  return concat("'", list->nameOf(element / shape.elements()), "' has the value ", value);
}

std::string ImageSamples::description() const {
  std::string text;
  if (options.crop)
    text = concat("random parts resized to ", shape.width, " x ", shape.height);
  else if (options.shorter > 0)
    text = concat("resized to ", options.shorter, ", of which the middle ", shape.width, " x ", shape.height);
  else
    text = concat("resized to ", shape.width, " x ", shape.height);
  text += options.flip ? ", randomly mirrored" : "";
  if (!isFloat(shape.type))
    return text + ", values from 0 to 255";
  if (options.mean.empty() && options.deviation.empty())
    return text + (shape.channels == 3 ? ", normalised by ImageNet's mean and standard deviation (--mean, --std)"
                                       : ", values from 0 to 1");
  return text + ", normalised by --mean and --std";
}

Status ImageLabels::read(int64_t from, int64_t count, char *to, DataType type) const {
  for (int64_t i = 0; i < count; ++i) {
    std::optional<int64_t> label = list->labelOf(from + i);
    if (!label)
      return failure("'", list->nameOf(from + i), "' ", list->whyNoLabel(from + i));
    writeInteger(to + i * widthOf(type), type, *label);
  }
  return {};
}

std::string ImageLabels::describe(int64_t element, int64_t value) const {
  return concat("'", list->nameOf(element), "' has the label ", value);
}
