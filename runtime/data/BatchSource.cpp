#include "runtime/data/BatchSource.h"
#include "divisi/suggest.h"
#include "runtime/core/Launch.h"
#include "runtime/data/CsvFile.h"
#include "runtime/data/NpySamples.h"
#include "runtime/data/RingInput.h"
#include "runtime/data/TokenFiles.h"
#include "runtime/data/images/ImageSamples.h"

#include <cstring>
#include <mutex>
#include <unistd.h>

using namespace divisi;
using namespace divisi::runtime;

namespace {
/// The bytes of a batch that a thread copies at least.
constexpr int64_t leastPiece = int64_t(1) << 20;

/// The type of tokens in files without a header: as nanoGPT writes them, if all tokens of the input fit.
DataType usualTokens(const Input &input) {
  return input.range && input.range->second > int64_t(UINT16_MAX) + 1 ? DataType::U32 : DataType::U16;
}
} // namespace

std::string BatchSource::expectation(const Input &input, bool constant) {
  std::string text = concat(nameOf(input.dtype), " [");
  const Shape &shape = input.wholeShape();
  for (size_t d = 0; d < shape.size(); ++d)
    text += d == 0 && !constant ? "N" : concat(d ? ", " : "", shape[d]);
  return text + "]";
}

Result<BatchSource> BatchSource::open(const Manifest &manifest, const Files &files, const std::string &flag,
                                      const Note &note, std::optional<DataType> tokenType,
                                      const std::set<std::string> *needed) {
  BatchSource source;
  source.batch = manifest.batch;
  std::vector<std::string> names;
  for (const Input &input : manifest.inputs)
    names.push_back(input.name);
  for (const auto &[name, path] : files)
    if (std::none_of(manifest.inputs.begin(), manifest.inputs.end(), [&](auto &i) { return i.name == name; }))
      return Status::usage(
          concat(flag, " ", name, "=", path, ": the model has no input '", name, "'", suggestion(name, names)));
  for (const Input &input : manifest.inputs) {
    if (needed && !needed->contains(input.name) && !files.contains(input.name)) {
      source.feeds.push_back(placeOf(manifest, input, manifest.rank));
      source.feeds.back().blank = true;
      continue;
    }
    Result<Feed> feed = source.openFeed(manifest, input, files, flag, note, tokenType);
    if (!feed.ok())
      return feed.status();
    source.feeds.push_back(std::move(*feed));
  }

  const Feed *first = nullptr;
  for (const Feed &feed : source.feeds) {
    if (feed.blank)
      continue;
    source.bytes += feed.input.here ? static_cast<int64_t>(feed.file->bytes()) : 0;
    if (feed.constant)
      continue;
    if (first && feed.file->samples() != source.sampleCount)
      return failure("'", feed.file->path(), "' has ", feed.file->samples(), " samples, but '", first->file->path(),
                     "' has ", source.sampleCount);
    first = &feed;
    source.sampleCount = feed.file->samples();
  }
  if (!first)
    source.sampleCount = manifest.batch;
  if (source.sampleCount == 0)
    return failure("'", first->file->path(), "' has no rows");
  source.large = source.bytes > int64_t(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE) / 4;
  if (!source.large)
    for (const Feed &feed : source.feeds)
      if (feed.input.here && !feed.blank)
        feed.file->willNeedAll();
  return source;
}

Result<BatchSource> BatchSource::openRing(const Manifest &manifest, const std::string &path) {
  BatchSource source;
  source.batch = manifest.batch;
  std::vector<int64_t> bytes;
  for (const Input &input : manifest.inputs)
    bytes.push_back(byteCount(input.wholeShape(), widthOf(input.dtype)).value_or(0));
  auto ring = BatchRing::open(path, bytes, manifest.mesh.size(), manifest.rank);
  if (!ring.ok())
    return failure("--feed: ", ring.status().message());
  source.ring = std::move(*ring);
  for (const Input &input : manifest.inputs) {
    source.feeds.push_back(placeOf(manifest, input, manifest.rank));
    Feed &feed = source.feeds.back();
    feed.file = std::make_shared<RingInput>(source.ring, source.feeds.size() - 1, std::max<int64_t>(feed.rowElements, 1));
  }
  return source;
}

bool BatchSource::endsEpoch(int64_t index) const { return ring ? ring->endsPass() : index + 1 == fullBatches(); }

Status BatchSource::loadFed(InputPlaces places, int64_t &rows) {
  Result<bool> found = ring->next();
  rows = found.ok() && *found ? batch : 0;
  if (rows == 0)
    return found.status();
  Status status;
  for (const Feed &feed : feeds)
    if (feed.input.here && status.ok()) {
      char *to = places.take(feed.input);
      status = feed.constant ? copy(feed, feed.piece, 0, to) : loadRows(feed, 0, rows, to);
    }
  ring->release();
  return status;
}

Result<BatchSource::Feed> BatchSource::openFeed(const Manifest &manifest, const Input &input, const Files &files,
                                                const std::string &flag, const Note &note,
                                                std::optional<DataType> tokenType) {
  Feed feed = placeOf(manifest, input, manifest.rank);
  auto [begin, end] = files.equal_range(input.name);
  // A label without a file is the class of an input's images.
  auto images = std::find_if(files.begin(), files.end(), [](const auto &file) { return isImagePath(file.second); });
  bool isLabel = input.label && !feed.constant && feed.rowsEach * feed.rowElements == 1 && !isFloat(input.dtype);
  Status status;
  if (begin == end && isLabel && images != files.end())
    status = followImages(feed, files, flag);
  else if (begin == end)
    status = followTokens(feed, flag, note);
  else if (isTokenPath(begin->second))
    status = openTokens(feed, {begin, end}, flag, note, tokenType);
  else if (isImagePath(begin->second))
    status = openImages(feed, {begin, end}, flag, note);
  else if (std::optional<CsvPath> csv = parseCsvPath(begin->second))
    status = openCsv(feed, *csv, manifest, flag);
  else
    status = openArray(feed, begin->second, flag, note);
  if (!status.ok())
    return status;
  return feed;
}

void BatchSource::loadFor(const Manifest &manifest, int64_t rank) {
  for (Feed &feed : feeds) {
    Feed place = placeOf(manifest, feed.input, rank);
    feed.piece = place.piece;
    feed.row = place.row;
    feed.first = place.first;
    feed.firstRow = place.firstRow;
  }
}

BatchSource::Feed BatchSource::placeOf(const Manifest &manifest, const Input &input, int64_t rank) {
  Feed feed{input};
  const Shape &whole = input.wholeShape();
  feed.constant = whole.empty() || whole[0] == 0 || whole[0] % manifest.batch != 0;
  feed.piece = manifest.sliceOf(input, rank);
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

Status BatchSource::openArray(Feed &feed, const std::string &path, const std::string &flag, const Note &note) {
  const Input &input = feed.input;
  Result<NpyFile> file = NpyFile::open(path);
  if (!file.ok())
    return failure(flag, " ", input.name, ": ", file.status().message(), didYouMeanFile(path));
  const Shape &shape = file->shape(), &whole = input.wholeShape();
  DataType type = file->dtype();
  bool fits = shape.size() == whole.size() && NpySamples::isConvertible(type, input.dtype);
  for (size_t d = feed.constant ? 0 : 1; fits && d < shape.size(); ++d)
    fits = shape[d] == whole[d];
  if (!fits)
    return failure(flag, " ", input.name, ": expected ", expectation(input, feed.constant), ", but '", path, "' has ",
                   nameOf(type), " ", toString(shape));
  if (!feed.constant && shape[0] % feed.rowsEach != 0)
    return failure("'", path, "' has ", shape[0], " rows, which ", feed.rowsEach, " rows per sample do not divide");
  if (type != input.dtype && note)
    note(concat("'", path, "' is converted from ", nameOf(type), " to ", nameOf(input.dtype)));
  feed.file = std::make_shared<NpySamples>(std::move(*file), feed.rowsEach, feed.rowElements);
  return {};
}

Status BatchSource::openCsv(Feed &feed, const CsvPath &path, const Manifest &manifest, const std::string &flag) {
  const Input &input = feed.input;
  std::shared_ptr<const CsvFile> &file = csvFiles[path.file];
  if (!file) {
    Result<std::shared_ptr<CsvFile>> opened = CsvFile::open(path.file);
    if (!opened.ok())
      return failure(flag, " ", input.name, ": ", opened.status().message());
    file = *opened;
  }
  int64_t wanted = feed.rowsEach * feed.rowElements;
  std::vector<std::string> columns = path.columns;
  auto has = [](const auto &all, const std::string &name) {
    return std::find(all.begin(), all.end(), name) != all.end();
  };
  if (columns.empty() && wanted == 1 && has(file->header(), input.name))
    columns = {input.name};
  if (columns.empty()) { // those of no other input
    std::vector<std::string> others;
    for (const Input &other : manifest.inputs)
      others.push_back(other.name);
    for (const std::string &name : file->header())
      if (!has(others, name))
        columns.push_back(name);
  }
  Result<std::shared_ptr<CsvSamples>> samples = CsvSamples::select(file, columns);
  if (!samples.ok())
    return failure(flag, " ", input.name, ": ", samples.status().message());
  auto found = static_cast<int64_t>((*samples)->columns());
  if (feed.constant || found != wanted)
    return failure(flag, " ", input.name, ": expected ", expectation(input, feed.constant), ", a row of ", wanted,
                   ", but '", path.file, "' gives ", found, found == 1 ? " column" : " columns", ": name them as ",
                   input.name, "=", path.file, ":COLUMN,COLUMN");
  feed.file = *samples;
  return {};
}

Status BatchSource::openTokens(Feed &feed, const FileRange &paths, const std::string &flag, const Note &note,
                               std::optional<DataType> type) {
  const Input &input = feed.input;
  if (feed.constant || (input.dtype != DataType::I64 && input.dtype != DataType::I32))
    return failure(flag, " ", input.name, ": expected ", expectation(input, feed.constant), ", but '",
                   paths.first->second, "' is a file of tokens");
  std::vector<std::string> names;
  for (auto it = paths.first; it != paths.second; ++it)
    names.push_back(it->second);
  auto files = TokenFiles::open(names, type.value_or(usualTokens(input)));
  if (!files.ok())
    return failure(flag, " ", input.name, ": ", files.status().message());
  feed.tokens = *files;
  int64_t window = feed.rowsEach * feed.rowElements, tokens = 0;
  auto windows = std::make_shared<TokenWindows>(*files, window, input.label ? 1 : 0);
  bool hasHeader = true;
  for (const TokenFiles::File &file : (*files)->files()) {
    tokens += file.tokens;
    hasHeader &= file.hasHeader;
    if (!type && file.looksWide())
      return failure(flag, " ", input.name, ": '", file.mapped.path(),
                     "' seems to have tokens of 32 bits, because every second number of ",
                     "16 bits is 0: give --token-type uint32 (or uint16, if it is so)");
  }
  if (windows->samples() == 0)
    return failure(flag, " ", input.name, ": '", windows->path(), "' has ", tokens, " tokens, and a window of ", window,
                   " and the token after it need ", window + 1);
  if (note)
    note(concat(input.name, ": ", tokens, " tokens of ", nameOf((*files)->files().front().type),
                hasHeader ? "" : " (without a header)", ", ", windows->samples(), " windows of ", window,
                input.label ? "; each has the tokens after those of the window" : ""));
  feed.file = std::move(windows);
  return {};
}

Status BatchSource::followTokens(Feed &feed, const std::string &flag, const Note &note) const {
  const Input &input = feed.input;
  int64_t window = feed.rowsEach * feed.rowElements;
  const Feed *from = nullptr;
  for (const Feed &other : feeds)
    if (other.tokens && !other.input.label && other.rowsEach * other.rowElements == window)
      from = &other;
  bool isInteger = input.dtype == DataType::I64 || input.dtype == DataType::I32;
  if (!input.label || feed.constant || !from || !isInteger)
    return Status::usage(concat("no file for input '", input.name, "': give ", flag, " ", input.name, "=FILE.npy with ",
                                expectation(input, false)));
  feed.tokens = from->tokens;
  feed.file = std::make_shared<TokenWindows>(from->tokens, window, 1);
  if (note)
    note(concat(input.name, ": the tokens after those of '", from->input.name, "'"));
  return {};
}

void BatchSource::shuffle(uint64_t seed, uint64_t epoch) {
  bool many = sampleCount > int64_t(UINT32_MAX);
  for (const Feed &feed : feeds)
    many |= !feed.constant && !feed.blank && feed.file->hasManySamples();
  if (many)
    computed.emplace(seed, epoch, static_cast<uint64_t>(sampleCount));
  else
    order = permutation(seed, epoch, static_cast<uint64_t>(sampleCount));
}

int64_t BatchSource::sampleAt(int64_t position) const {
  if (computed)
    return static_cast<int64_t>(computed->at(static_cast<uint64_t>(position)));
  return order.empty() ? position : order[static_cast<size_t>(position)];
}

Status BatchSource::copy(const Feed &feed, int64_t from, char *to, int64_t count) const {
  const Input &input = feed.input;
  Status status = feed.file->read(from, count, to, input.dtype);
  if (!status.ok() || !input.range || isFloat(input.dtype))
    return status;
  for (int64_t i = 0; i < count; ++i) {
    int64_t value = readInteger(to + i * widthOf(input.dtype), input.dtype);
    if ((value < input.range->first || value >= input.range->second) && value != input.padding)
      return failure(feed.file->describe(from + i, value), ", but input '", input.name, "' takes ", input.range->first,
                     " to ", input.range->second - 1);
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

Status BatchSource::loadRun(const Feed &feed, int64_t begin, int64_t from, int64_t to, char *place) const {
  int64_t each = feed.rowsEach, elements = feed.row.elements(), r = from;
  bool whole = elements == feed.rowElements;
  while (r < to) {
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
  return {};
}

std::pair<int64_t, int64_t> BatchSource::rowsOf(const Feed &feed, int64_t m) {
  // Padding of the microbatch follows its last row.
  int64_t inside = std::clamp<int64_t>(feed.microbatchRows - feed.firstRow, 0, feed.rows);
  int64_t first = (feed.first + m) * feed.microbatchRows + feed.firstRow;
  bool exists = feed.input.microbatches == 0 || feed.first + m < feed.input.microbatches;
  return {first, exists ? first + inside : first};
}

Status BatchSource::loadRows(const Feed &feed, int64_t begin, int64_t rows, char *to) const {
  const Input &input = feed.input;
  int64_t elements = feed.row.elements(), width = widthOf(input.dtype);
  for (int64_t m = 0; m < feed.microbatches; ++m, to += feed.rows * elements * width) {
    auto [first, end] = rowsOf(feed, m);
    int64_t loaded = std::clamp<int64_t>(rows * feed.rowsEach - first, 0, end - first);
    Status failed;
    int64_t failedRow = loaded;
    std::mutex mutex; // of the error of the first row that has one
    forEachPiece(loaded, leastPiece / std::max<int64_t>(elements * width, 1), divisi_team_size(), [&](int64_t from, int64_t until) {
      Status status = loadRun(feed, begin, first + from, first + until, to + from * elements * width);
      std::lock_guard lock(mutex);
      if (!status.ok() && from < failedRow) {
        failed = std::move(status);
        failedRow = from;
      }
    });
    if (!failed.ok())
      return failed;
    std::memset(to + loaded * elements * width, 0, static_cast<size_t>((feed.rows - loaded) * elements * width));
    if (input.padding)
      for (int64_t i = loaded * elements; i < feed.rows * elements; ++i)
        writeInteger(to + i * width, input.dtype, *input.padding);
  }
  return {};
}

Status BatchSource::load(int64_t index, InputPlaces places, int64_t &rows) {
  if (ring)
    return loadFed(places, rows);
  int64_t begin = index * batch;
  rows = std::min(batch, sampleCount - begin);
  expectImages(index);
  for (const Feed &feed : feeds) {
    if (!feed.input.here)
      continue;
    char *to = places.take(feed.input);
    if (feed.blank && feed.constant) {
      std::memset(to, 0, static_cast<size_t>(feed.input.bytes));
      continue;
    }
    Status status = feed.constant ? copy(feed, feed.piece, 0, to) : loadRows(feed, begin, feed.blank ? 0 : rows, to);
    if (!status.ok())
      return status;
  }
  if (large)
    readAhead(index + 1);
  limitResidence(rows);
  return {};
}

void BatchSource::limitResidence(int64_t rows) {
  constexpr int64_t limit = int64_t(256) << 20;
  // The system maps 64 KiB around each page that is read; a row, and what is read to find it, may touch three of these.
  constexpr int64_t around = int64_t(192) << 10;
  if (bytes <= limit)
    return;
  for (const Feed &feed : feeds)
    if (feed.input.here && !feed.constant && !feed.blank)
      resident += rows * (feed.rowsEach * feed.rowElements * widthOf(feed.input.dtype) + around);
  if (resident <= limit)
    return;
  resident = 0;
  for (const Feed &feed : feeds)
    if (feed.input.here && !feed.blank)
      feed.file->release();
}

void BatchSource::readAhead(int64_t index) const {
  int64_t begin = index * batch, end = std::min(sampleCount, begin + batch);
  for (const Feed &feed : feeds)
    for (int64_t i = begin; i < end && !feed.constant && !feed.blank && feed.input.here; ++i) {
      int64_t elements = feed.rowsEach * feed.rowElements;
      feed.file->willNeed(sampleAt(i) * elements, elements);
    }
}
