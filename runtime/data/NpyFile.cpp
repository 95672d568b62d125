#include "runtime/data/NpyFile.h"
#include "divisi/file_kind.h"

#include <algorithm>
#include <bit>
#include <map>

using namespace divisi;
using namespace divisi::runtime;

static_assert(std::endian::native == std::endian::little, "files are mapped as they are");

namespace {
/// The header of an array: a Python dictionary with a text, a boolean and a tuple of sizes, in any order.
struct Header {
  std::string descr;
  bool fortran = false;
  Shape shape;
};

/// Parses exactly what NumPy writes; anything else is an error.
class HeaderParser {
public:
  explicit HeaderParser(std::string_view text) : rest(text) {}

  bool parse(Header &header) {
    bool descr = false, order = false, shape = false;
    if (!take('{'))
      return false;
    while (!take('}')) {
      std::string key;
      if (!text(key) || !take(':'))
        return false;
      if (key == "descr" && !descr)
        descr = text(header.descr) || other(header.descr);
      else if (key == "fortran_order" && !order)
        order = truth(header.fortran);
      else if (key == "shape" && !shape)
        shape = tuple(header.shape);
      else
        return false;
      take(',');
    }
    skipSpace();
    return descr && order && shape && rest.empty();
  }

private:
  void skipSpace() {
    while (!rest.empty() && (rest.front() == ' ' || rest.front() == '\n' || rest.front() == '\t'))
      rest.remove_prefix(1);
  }
  bool take(char c) {
    skipSpace();
    if (rest.empty() || rest.front() != c)
      return false;
    rest.remove_prefix(1);
    return true;
  }
  bool text(std::string &out) {
    char quote = take('\'') ? '\'' : take('"') ? '"' : 0;
    size_t end = quote ? rest.find(quote) : std::string_view::npos;
    if (end == std::string_view::npos)
      return false;
    out = rest.substr(0, end);
    rest.remove_prefix(end + 1);
    return true;
  }
  /// A structured type, as text for the error.
  bool other(std::string &out) {
    size_t depth = 0, i = 0;
    for (; i < rest.size() && (i == 0 || depth > 0); ++i) {
      depth += rest[i] == '[' || rest[i] == '(';
      if ((rest[i] == ']' || rest[i] == ')') && depth-- == 0)
        return false;
    }
    if (i < 2)
      return false;
    out = rest.substr(0, i);
    rest.remove_prefix(i);
    return true;
  }
  bool truth(bool &out) {
    skipSpace();
    for (auto [word, value] : {std::pair{std::string_view("True"), true}, {"False", false}})
      if (rest.starts_with(word)) {
        out = value;
        rest.remove_prefix(word.size());
        return true;
      }
    return false;
  }
  bool tuple(Shape &out) {
    if (!take('('))
      return false;
    while (!take(')')) {
      int64_t value = 0;
      size_t digits = 0;
      skipSpace();
      for (; digits < rest.size() && rest[digits] >= '0' && rest[digits] <= '9'; ++digits) {
        if (value > (INT64_MAX - 9) / 10)
          return false;
        value = value * 10 + (rest[digits] - '0');
      }
      if (digits == 0 || out.size() == 64)
        return false;
      rest.remove_prefix(digits);
      out.push_back(value);
      take(',');
    }
    return true;
  }

  std::string_view rest;
};

const std::map<std::string_view, DataType> types = {
    {"f2", DataType::F16}, {"f4", DataType::F32}, {"f8", DataType::F64}, {"i1", DataType::I8},
    {"i2", DataType::I16}, {"i4", DataType::I32}, {"i8", DataType::I64}, {"u1", DataType::U8},
    {"u2", DataType::U16}, {"u4", DataType::U32}, {"u8", DataType::U64}, {"b1", DataType::BOOL}};

std::optional<DataType> typeOf(std::string_view descr) {
  if (!descr.empty() && (descr[0] == '<' || descr[0] == '|' || descr[0] == '='))
    descr.remove_prefix(1);
  auto it = types.find(descr);
  return it == types.end() ? std::nullopt : std::optional(it->second);
}

/// What a file seems to be that is not a .npy file, and how NumPy makes one of it; empty for an unknown kind.
std::string asArray(FileKind kind) {
  const char *remedy = "";
  if (kind == FileKind::csv)
    remedy = ": numpy.save('x.npy', numpy.loadtxt('x.csv', delimiter=',', dtype='float32')) converts it";
  else if (kind == FileKind::npz || kind == FileKind::zip)
    remedy = ": extract its arrays first";
  else if (kind == FileKind::torch || kind == FileKind::pickle)
    remedy = ": numpy.save('x.npy', torch.load('x.pt').numpy()) converts a tensor";
  else if (kind == FileKind::safetensors || kind == FileKind::hdf5 || kind == FileKind::parquet ||
           kind == FileKind::image)
    remedy = ": numpy.save writes an array of it";
  else if (kind == FileKind::onnx)
    remedy = ": that is for divisi compile";
  return kind == FileKind::unknown ? "" : concat("; it looks like ", nameOf(kind), remedy);
}
} // namespace

std::optional<std::string> divisi::runtime::npyHeader(DataType type, const Shape &shape) {
  auto it = std::find_if(types.begin(), types.end(), [&](const auto &entry) { return entry.second == type; });
  if (it == types.end())
    return std::nullopt;
  std::string sizes;
  for (int64_t size : shape)
    sizes += concat(size, ", ");
  std::string text = concat("{'descr': '", widthOf(type) == 1 ? "|" : "<", it->first, "', 'fortran_order': False, 'shape': (", sizes, "), }");
  constexpr size_t before = 10, multiple = 64; // magic, version and length
  size_t whole = (before + text.size() + multiple) / multiple * multiple, length = whole - before;
  if (length > UINT16_MAX)
    return std::nullopt;
  text.resize(length - 1, ' ');
  std::string header = "\x93NUMPY";
  header += {'\1', '\0', static_cast<char>(length & 0xff), static_cast<char>(length >> 8)};
  return header + text + "\n";
}

Result<NpyFile> NpyFile::open(const std::string &path) {
  Result<MappedFile> file = MappedFile::open(path);
  if (!file.ok())
    return file.status();
  NpyFile npy(std::move(*file));
  if (Status status = npy.parse(); !status.ok())
    return status;
  return npy;
}

Status NpyFile::parse() {
  std::string_view text = file.text();
  auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(text[i])); };
  if (!text.starts_with("\x93NUMPY"))
    return failure("'", path(), "' is not a .npy file", asArray(kindOfFile(text)));
  if (text.size() < 12)
    return failure("'", path(), "' is truncated: its header is not complete");
  if (byte(6) < 1 || byte(6) > 3)
    return failure("'", path(), "' has the unknown .npy version ", byte(6));
  bool old = byte(6) == 1;
  size_t begin = old ? 10 : 12;
  size_t length = old ? byte(8) | byte(9) << 8 : byte(8) | byte(9) << 8 | byte(10) << 16 | byte(11) << 24;
  if (length > text.size() - begin)
    return failure("'", path(), "' is truncated: its header is not complete");
  start = begin + length;

  Header header;
  if (!HeaderParser(text.substr(begin, length)).parse(header))
    return failure("'", path(), "' has a damaged header");
  if (header.descr.starts_with(">"))
    return failure("'", path(), "' has big-endian numbers ('", header.descr.substr(0, 40),
                   "'): save it as array.astype(array.dtype.newbyteorder('<'))");
  std::optional<DataType> known = typeOf(header.descr);
  if (!known)
    return failure("'", path(), "' has elements of type '", header.descr.substr(0, 40), "', which no model takes");
  size_t dims = 0;
  for (int64_t size : header.shape)
    dims += size > 1;
  if (header.fortran && dims > 1)
    return failure("'", path(), "' is in Fortran order: save it as numpy.ascontiguousarray(array)");
  std::optional<int64_t> expected = byteCount(header.shape, widthOf(*known));
  if (!expected)
    return failure("'", path(), "' has the impossible shape ", toString(header.shape));
  if (auto have = bytes(); have != static_cast<size_t>(*expected))
    return failure("'", path(), "' is ", have < static_cast<size_t>(*expected) ? "truncated" : "damaged", ": ",
                   toString(header.shape), " of ", nameOf(*known), " needs ", *expected, " bytes, and it has ", have);
  type = *known;
  sizes = header.shape;
  return {};
}
