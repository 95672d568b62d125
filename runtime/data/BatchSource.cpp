#include "runtime/data/BatchSource.h"
#include "divisi/suggest.h"
#include "runtime/data/Shuffle.h"

#include <cstring>
#include <unistd.h>

using namespace divisi;
using namespace divisi::runtime;

namespace {
/// Whether the types are equal, or the conversion is one of the two that are allowed.
bool convertible(DataType from, DataType to) {
  return from == to || (from == DataType::I32 && to == DataType::I64) || (from == DataType::F64 && to == DataType::F32);
}

template <typename From, typename To> void convertEach(const char *from, char *to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, from + i * sizeof(From), sizeof(From));
    auto converted = static_cast<To>(value);
    std::memcpy(to + i * sizeof(To), &converted, sizeof(To));
  }
}

void convert(const char *from, DataType fromType, char *to, DataType toType, int64_t count) {
  if (fromType == toType)
    std::memcpy(to, from, static_cast<size_t>(count * widthOf(toType)));
  else if (toType == DataType::I64)
    convertEach<int32_t, int64_t>(from, to, count);
  else
    convertEach<double, float>(from, to, count);
}

std::string expectation(const Input &input, bool constant) {
  std::string text = concat(nameOf(input.dtype), " [");
  const Shape &shape = input.wholeShape();
  for (size_t d = 0; d < shape.size(); ++d)
    text += d == 0 && !constant ? "N" : concat(d ? ", " : "", shape[d]);
  return text + "]";
}
} // namespace

Result<BatchSource> BatchSource::open(const Manifest &manifest, const std::map<std::string, std::string> &files,
                                      const std::string &flag, const std::function<void(const std::string &)> &note) {
  BatchSource source;
  source.batch = manifest.batch;
  std::vector<std::string> names;
  for (const Input &input : manifest.inputs)
    names.push_back(input.name);
  for (const auto &[name, path] : files)
    if (std::none_of(manifest.inputs.begin(), manifest.inputs.end(), [&](auto &i) { return i.name == name; }))
      return Status::usage(concat(flag, " ", name, "=", path, ": the model has no input '", name, "'", suggestion(name, names)));
  for (const Input &input : manifest.inputs) {
    auto it = files.find(input.name);
    if (it == files.end())
      return Status::usage(concat("no file for input '", input.name, "': give ", flag, " ", input.name,
                                  "=FILE.npy with ", expectation(input, false)));
    Result<Feed> feed = openFeed(manifest, input, flag, it->second);
    if (!feed.ok())
      return feed.status();
    if (feed->file.dtype() != input.dtype && note)
      note(concat("'", it->second, "' is converted from ", nameOf(feed->file.dtype()), " to ", nameOf(input.dtype)));
    source.feeds.push_back(std::move(*feed));
  }

  const Feed *first = nullptr;
  int64_t bytes = 0;
  for (const Feed &feed : source.feeds) {
    bytes += feed.input.here ? static_cast<int64_t>(feed.file.bytes()) : 0;
    if (feed.constant)
      continue;
    int64_t rowsEach = feed.rowsEach, rows = feed.file.shape()[0];
    if (rows % rowsEach != 0)
      return failure("'", feed.file.path(), "' has ", rows, " rows, which ", rowsEach,
                     " rows per sample do not divide");
    if (first && rows / rowsEach != source.sampleCount)
      return failure("'", feed.file.path(), "' has ", rows / rowsEach, " samples, but '", first->file.path(), "' has ",
                     source.sampleCount);
    first = &feed;
    source.sampleCount = rows / rowsEach;
  }
  if (!first)
    source.sampleCount = manifest.batch;
  if (source.sampleCount == 0)
    return failure("'", first->file.path(), "' has no rows");
  source.large = bytes > int64_t(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE) / 4;
  if (!source.large)
    for (const Feed &feed : source.feeds)
      if (feed.input.here)
        feed.file.willNeed(0, feed.file.bytes());
  return source;
}

Result<BatchSource::Feed> BatchSource::openFeed(const Manifest &manifest, const Input &input, const std::string &flag,
                                                const std::string &path) {
  Result<NpyFile> file = NpyFile::open(path);
  if (!file.ok())
    return failure(flag, " ", input.name, ": ", file.status().message(), didYouMeanFile(path));
  Feed feed{input, std::move(*file)};
  const Shape &shape = feed.file.shape(), &whole = input.wholeShape();
  feed.constant = whole.empty() || whole[0] == 0 || whole[0] % manifest.batch != 0;
  bool fits = shape.size() == whole.size() && convertible(feed.file.dtype(), input.dtype);
  for (size_t d = feed.constant ? 0 : 1; fits && d < shape.size(); ++d)
    fits = shape[d] == whole[d];
  if (!fits)
    return failure(flag, " ", input.name, ": expected ", expectation(input, feed.constant), ", but '", path, "' has ",
                   nameOf(feed.file.dtype()), " ", toString(shape));
  feed.piece = manifest.sliceOf(input);
  feed.row = feed.piece;
  const Slice &piece = feed.piece;
  size_t rowsAt = input.microbatches > 0 ? 1 : 0; // the dimension of the rows
  if (!whole.empty()) {
    feed.microbatchRows = piece.global[rowsAt];
    feed.rows = piece.local[rowsAt];
    feed.firstRow = piece.start[rowsAt];
    for (Shape *sizes : {&feed.row.global, &feed.row.local, &feed.row.start})
      sizes->erase(sizes->begin(), sizes->begin() + static_cast<int64_t>(rowsAt) + 1);
  }
  if (input.microbatches > 0) {
    feed.microbatches = piece.local[0];
    feed.first = piece.start[0];
  }
  for (int64_t size : feed.row.global)
    feed.rowElements *= size;
  feed.rowsEach = feed.constant ? 1 : whole[0] / manifest.batch;
  return feed;
}

void BatchSource::shuffle(uint64_t seed, uint64_t epoch) {
  order = permutation(seed, epoch, static_cast<uint64_t>(sampleCount));
}

Status BatchSource::copy(const Feed &feed, int64_t from, char *to, int64_t count) const {
  const Input &input = feed.input;
  convert(feed.file.data() + from * widthOf(feed.file.dtype()), feed.file.dtype(), to, input.dtype, count);
  if (!input.range || isFloat(input.dtype))
    return {};
  for (int64_t i = 0; i < count; ++i) {
    int64_t value = readInteger(to + i * widthOf(input.dtype), input.dtype);
    if ((value < input.range->first || value >= input.range->second) && value != input.padding)
      return failure("'", feed.file.path(), "' has the value ", value, " in row ", (from + i) / feed.rowElements,
                     ", but input '", input.name, "' takes ", input.range->first, " to ", input.range->second - 1);
  }
  return {};
}

Status BatchSource::copy(const Feed &feed, const Slice &slice, int64_t from, char *to) const {
  Status status;
  slice.forEachRun([&](int64_t there, int64_t here, int64_t count) {
    if (status.ok())
      status = copy(feed, from + there, to + here * widthOf(feed.input.dtype), count);
  });
  return status;
}

Result<int64_t> BatchSource::loadRun(const Feed &feed, int64_t begin, int64_t rows, int64_t from, int64_t to,
                                     char *place) const {
  int64_t each = feed.rowsEach, elements = feed.row.elements(), r = from;
  bool whole = elements == feed.rowElements;
  while (r < to && r / each < rows) {
    int64_t within = r % each;
    // The rows of a sample are contiguous.
    int64_t n = whole ? std::min(to - r, each - within) : 1;
    int64_t element = (sampleAt(begin + r / each) * each + within) * feed.rowElements;
    char *here = place + (r - from) * elements * widthOf(feed.input.dtype);
    Status status = whole ? copy(feed, element, here, n * elements) : copy(feed, feed.row, element, here);
    if (!status.ok())
      return status;
    r += n;
  }
  return r - from;
}

Status BatchSource::loadRows(const Feed &feed, int64_t begin, int64_t rows, char *to) const {
  const Input &input = feed.input;
  int64_t elements = feed.row.elements(), width = widthOf(input.dtype);
  for (int64_t m = 0; m < feed.microbatches; ++m, to += feed.rows * elements * width) {
    // Padding of the microbatch follows its last row.
    int64_t inside = std::clamp<int64_t>(feed.microbatchRows - feed.firstRow, 0, feed.rows);
    int64_t first = (feed.first + m) * feed.microbatchRows + feed.firstRow;
    bool exists = input.microbatches == 0 || feed.first + m < input.microbatches;
    Result<int64_t> loaded = loadRun(feed, begin, rows, first, exists ? first + inside : first, to);
    if (!loaded.ok())
      return loaded.status();
    std::memset(to + *loaded * elements * width, 0, static_cast<size_t>((feed.rows - *loaded) * elements * width));
    if (input.padding)
      for (int64_t i = *loaded * elements; i < feed.rows * elements; ++i)
        writeInteger(to + i * width, input.dtype, *input.padding);
  }
  return {};
}

Status BatchSource::load(int64_t index, char *arena, int64_t &rows) {
  int64_t begin = index * batch;
  rows = std::min(batch, sampleCount - begin);
  for (const Feed &feed : feeds) {
    if (!feed.input.here)
      continue;
    char *to = arena + feed.input.offset;
    Status status = feed.constant ? copy(feed, feed.piece, 0, to) : loadRows(feed, begin, rows, to);
    if (!status.ok())
      return status;
  }
  if (large)
    readAhead(index + 1);
  return {};
}

void BatchSource::readAhead(int64_t index) const {
  int64_t begin = index * batch, end = std::min(sampleCount, begin + batch);
  for (const Feed &feed : feeds)
    for (int64_t i = begin; i < end && !feed.constant && feed.input.here; ++i) {
      int64_t bytes = feed.rowsEach * feed.rowElements * widthOf(feed.file.dtype());
      feed.file.willNeed(static_cast<size_t>(sampleAt(i) * bytes), static_cast<size_t>(bytes));
    }
}
