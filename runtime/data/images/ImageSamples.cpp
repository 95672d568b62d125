#include "runtime/data/images/ImageSamples.h"
#include "runtime/data/images/Decode.h"
#include "runtime/data/images/Framing.h"

#include <cstring>

using namespace divisi::runtime;

namespace {
/// Of the images of ImageNet, with which most published networks were trained.
constexpr std::array<double, 3> usualMean = {0.485, 0.456, 0.406}, usualDeviation = {0.229, 0.224, 0.225};

/// The numbers of a flag for each channel.
std::vector<double> perChannel(const std::vector<double> &given, const std::array<double, 3> &usual, double gray, int64_t channels) {
  if (given.size() == 1)
    return std::vector<double>(static_cast<size_t>(channels), given[0]);
  if (!given.empty())
    return given;
  return channels == 3 ? std::vector<double>(usual.begin(), usual.end()) : std::vector<double>{gray};
}

template <typename Element>
void writeEach(const Pixels &pixels, bool flip, bool channelsFirst, const std::array<std::vector<char>, 3> &tables, char *to) {
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
  return form.height > 0 && form.width > 0 && type != DataType::BOOL ? std::optional(form) : std::nullopt;
}

ImageSamples::ImageSamples(std::shared_ptr<const ImageList> from, const ImageForm &form, const ImageOptions &options)
    : list(std::move(from)), form(form), options(options) {
  makeTables();
  workers = std::make_unique<SampleWorkers>(
      std::max(1, options.workers), [this](int64_t sample, std::vector<char> &to) { return prepare(sample, to); });
}

void ImageSamples::makeTables() {
  std::vector<double> mean = perChannel(options.mean, usualMean, 0, form.channels);
  std::vector<double> deviation = perChannel(options.deviation, usualDeviation, 1, form.channels);
  int64_t width = widthOf(form.type);
  for (size_t c = 0; c < static_cast<size_t>(form.channels); ++c) {
    tables[c].resize(static_cast<size_t>(256 * width));
    for (int value = 0; value < 256; ++value) {
      char *to = tables[c].data() + value * width;
      // In fp32, as torchvision's ToTensor and Normalize compute.
      float number = (static_cast<float>(value) / 255.0F - static_cast<float>(mean[c])) / static_cast<float>(deviation[c]);
      if (isFloat(form.type))
        writeNumber(to, form.type, number);
      else
        writeInteger(to, form.type, value);
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
  thread_local std::string bytes;
  thread_local Pixels image, part, scratch;
  Status status = list->read(sample, bytes);
  if (status.ok())
    status = decodeImage(bytes, form.channels, image, scratch);
  if (!status.ok())
    return failure("'", list->nameOf(sample), "' ", status.message());
  Draws draws(key, sample);
  Framing framing = options.crop ? randomPartOf(image.width, image.height, form.width, form.height, draws)
                                 : middleOf(image.width, image.height, form.width, form.height, options.shorter);
  framing.flip = options.flip && draws.next() < 0.5;
  resample(image, framing.source, framing.width, framing.height, framing.crop, part, scratch);
  to.resize(static_cast<size_t>(form.elements() * widthOf(form.type)));
  write(part, framing.flip, to.data());
  return {};
}

void ImageSamples::write(const Pixels &pixels, bool flip, char *to) const {
  switch (widthOf(form.type)) {
  case 1:
    return writeEach<uint8_t>(pixels, flip, form.channelsFirst, tables, to);
  case 2:
    return writeEach<uint16_t>(pixels, flip, form.channelsFirst, tables, to);
  case 4:
    return writeEach<uint32_t>(pixels, flip, form.channelsFirst, tables, to);
  default:
    return writeEach<uint64_t>(pixels, flip, form.channelsFirst, tables, to);
  }
}

Status ImageSamples::read(int64_t from, int64_t count, char *to, DataType type) const {
  Result<const std::vector<char> *> prepared = workers->take(from / form.elements());
  if (!prepared.ok())
    return prepared.status();
  int64_t width = widthOf(type);
  std::memcpy(to, (*prepared)->data() + from % form.elements() * width, static_cast<size_t>(count * width));
  return {};
}

std::string ImageSamples::describe(int64_t element, int64_t value) const {
  return concat("'", list->nameOf(element / form.elements()), "' has the value ", value);
}

std::string ImageSamples::description() const {
  std::string text;
  if (options.crop)
    text = concat("random parts resized to ", form.width, " x ", form.height);
  else if (options.shorter > 0)
    text = concat("resized to ", options.shorter, ", of which the middle ", form.width, " x ", form.height);
  else
    text = concat("resized to ", form.width, " x ", form.height);
  text += options.flip ? ", randomly mirrored" : "";
  if (!isFloat(form.type))
    return text + ", values from 0 to 255";
  if (options.mean.empty() && options.deviation.empty())
    return text + (form.channels == 3 ? ", normalised by ImageNet's mean and standard deviation (--mean, --std)" : ", values from 0 to 1");
  return text + ", normalised by --mean and --std";
}

Status ImageLabels::read(int64_t from, int64_t count, char *to, DataType type) const {
  for (int64_t i = 0; i < count; ++i) {
    std::optional<int64_t> label = list->labelOf(from + i);
    if (!label)
      return failure("'", list->nameOf(from + i), "' has no label: a tar file has it in KEY.cls, or as \"label\" in KEY.json");
    writeInteger(to + i * widthOf(type), type, *label);
  }
  return {};
}

std::string ImageLabels::describe(int64_t element, int64_t value) const {
  return concat("'", list->nameOf(element), "' has the label ", value);
}
