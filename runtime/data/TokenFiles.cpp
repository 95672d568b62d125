#include "runtime/data/TokenFiles.h"
#include "divisi/file_kind.h"
#include "divisi/suggest.h"
#include "runtime/data/Paths.h"

#include <algorithm>
#include <array>
#include <cstring>

using namespace divisi;
using namespace divisi::runtime;

namespace {
/// llm.c: 256 numbers of 32 bits, of which the first three are used.
constexpr int64_t headerBytes = 1024;
struct Magic {
  int32_t number, version;
  DataType type;
};
constexpr std::array<Magic, 2> magics = {{{20240520, 1, DataType::U16}, {20240801, 7, DataType::U32}}};

/// Whether the kind is certain: other kinds have first bytes that tokens may have, too.
bool isNoTokens(FileKind kind) {
  constexpr std::array certain = {FileKind::npy,  FileKind::npz,     FileKind::torch,  FileKind::zip,
                                  FileKind::hdf5, FileKind::parquet, FileKind::program};
  return std::find(certain.begin(), certain.end(), kind) != certain.end();
}

template <typename From, typename To> void widen(const char *from, char *to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    From token;
    std::memcpy(&token, from + i * sizeof(From), sizeof(From));
    auto wide = static_cast<To>(token);
    std::memcpy(to + i * sizeof(To), &wide, sizeof(To));
  }
}
} // namespace

bool divisi::runtime::isTokenPath(std::string_view path) { return path.ends_with(".bin"); }

int64_t TokenFiles::File::token(int64_t position) const {
  return readInteger(mapped.data() + start + position * widthOf(type), type);
}

bool TokenFiles::File::looksWide() const {
  int64_t seen = std::min<int64_t>(tokens, 4096), others = 0;
  if (hasHeader || type != DataType::U16 || seen < 16)
    return false;
  for (int64_t i = 0; i + 1 < seen; i += 2) {
    others += token(i) != 0;
    if (token(i + 1) != 0)
      return false;
  }
  return others > 0;
}

Result<TokenFiles::File> TokenFiles::openFile(const std::string &path, DataType type) {
  Result<MappedFile> mapped = MappedFile::open(path);
  if (!mapped.ok())
    return failure(mapped.status().message(), didYouMeanFile(path));
  std::string_view text = mapped->text();
  auto size = static_cast<int64_t>(text.size());
  std::array<int32_t, 3> head = {};
  if (size >= static_cast<int64_t>(sizeof(head)))
    std::memcpy(head.data(), text.data(), sizeof(head));
  for (const Magic &magic : magics) {
    if (head[0] != magic.number)
      continue;
    if (head[1] != magic.version)
      return failure("'", path, "' has a header of version ", head[1], ", but ", magic.version, " is known");
    int64_t tokens = head[2], needed = headerBytes + tokens * widthOf(magic.type);
    if (tokens < 0 || size != needed)
      return failure("'", path, "' is ", size < needed ? "truncated" : "damaged", ": its header promises ", tokens,
                     " tokens of ", nameOf(magic.type), tokens < 0 ? "" : concat(", which are ", needed, " bytes"),
                     ", and it has ", size);
    return File{std::move(*mapped), magic.type, headerBytes, tokens, true};
  }
  if (FileKind kind = kindOfFile(text); isNoTokens(kind))
    return failure("'", path, "' is no file of tokens; it looks like ", nameOf(kind));
  if (size % widthOf(type) != 0)
    return failure("'", path, "' is truncated, or no file of tokens: its ", size, " bytes are no whole number of ",
                   nameOf(type), " tokens");
  return File{std::move(*mapped), type, 0, size / widthOf(type), false};
}

Result<std::shared_ptr<TokenFiles>> TokenFiles::open(const std::vector<std::string> &paths, DataType type) {
  auto files = std::make_shared<TokenFiles>();
  for (const std::string &pattern : paths) {
    Result<std::vector<std::string>> expanded = expandPattern(pattern);
    if (!expanded.ok())
      return expanded.status();
    for (const std::string &path : *expanded) {
      Result<File> file = openFile(path, type);
      if (!file.ok())
        return file.status();
      files->all.push_back(std::move(*file));
    }
  }
  return files;
}

TokenWindows::TokenWindows(std::shared_ptr<const TokenFiles> from, int64_t window, int64_t shift)
    : files(std::move(from)), window(window), shift(shift) {
  int64_t end = 0;
  for (const TokenFiles::File &file : files->files())
    ends.push_back(end += std::max<int64_t>(file.tokens - 1, 0) / window);
}

TokenWindows::Place TokenWindows::placeOf(int64_t element) const {
  int64_t sample = element / window;
  auto index = static_cast<size_t>(std::upper_bound(ends.begin(), ends.end(), sample) - ends.begin());
  int64_t first = index > 0 ? ends[index - 1] : 0;
  return {files->files()[index], element - first * window + shift};
}

size_t TokenWindows::bytes() const {
  size_t sum = 0;
  for (const TokenFiles::File &file : files->files())
    sum += file.mapped.size();
  return sum;
}

Status TokenWindows::read(int64_t from, int64_t count, char *to, DataType type) const {
  Place place = placeOf(from);
  const TokenFiles::File &file = place.file;
  const char *begin = file.mapped.data() + file.start + place.position * widthOf(file.type);
  bool isShort = file.type == DataType::U16;
  if (type == DataType::I64) {
    (isShort ? widen<uint16_t, int64_t> : widen<uint32_t, int64_t>)(begin, to, count);
    return {};
  }
  for (int64_t i = 0; !isShort && i < count; ++i)
    if (int64_t token = file.token(place.position + i); token > INT32_MAX)
      return failure(describe(from + i, token), ", which is no token");
  (isShort ? widen<uint16_t, int32_t> : widen<uint32_t, int32_t>)(begin, to, count);
  return {};
}

std::string TokenWindows::describe(int64_t element, int64_t value) const {
  Place place = placeOf(element);
  return concat("'", place.file.mapped.path(), "' has the token ", value, " at position ", place.position);
}

void TokenWindows::willNeed(int64_t from, int64_t count) const {
  Place place = placeOf(from);
  int64_t width = widthOf(place.file.type);
  place.file.mapped.willNeed(static_cast<size_t>(place.file.start + place.position * width),
                             static_cast<size_t>(count * width));
}

void TokenWindows::willNeedAll() const {
  for (const TokenFiles::File &file : files->files())
    file.mapped.willNeed(0, file.mapped.size());
}

void TokenWindows::release() const {
  for (const TokenFiles::File &file : files->files())
    file.mapped.release(0, file.mapped.size());
}
