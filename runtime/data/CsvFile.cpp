#include "runtime/data/CsvFile.h"
#include "divisi/pattern.h"
#include "divisi/suggest.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

using namespace divisi;
using namespace divisi::runtime;

namespace {
/// A number that takes the whole text.
template <typename T> std::optional<T> parse(std::string_view text) {
  T number = 0;
  if (text.starts_with('+') && !text.starts_with("+-"))
    text.remove_prefix(1);
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (end != text.data() + text.size())
    return std::nullopt;
  // Floating-point numbers beyond the type are the nearest one: zero, or infinity.
  if (std::is_floating_point_v<T> && error == std::errc::result_out_of_range)
    return static_cast<T>(std::strtod(std::string(text).c_str(), nullptr));
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t'))
    text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t'))
    text.remove_suffix(1);
  return text;
}

/// Follows the quotes of a line, character by character: they enclose a field only from its first character on, as
/// RFC 4180 has it; elsewhere they are text.
class Quotes {
public:
  explicit Quotes(char delimiter) : delimiter(delimiter) {}
  /// Whether the next character is within quotes: a delimiter or the end of a line is then text.
  bool isOpen() const { return place == Place::quoted; }
  /// Whether the next character belongs to the text of its field, which it does unless it is one of the quotes.
  bool isText(char c) const { return c != '"' || place == Place::field || place == Place::closed; }
  void pass(char c) {
    if (place == Place::quoted)
      place = c == '"' ? Place::closed : Place::quoted;
    else if (c == '"' && place != Place::field)
      place = Place::quoted; // the first of a field, or the second of a pair
    else
      place = c == delimiter ? Place::start : Place::field;
  }

private:
  enum class Place : uint8_t { start, field, quoted, closed };
  char delimiter;
  Place place = Place::start;
};

/// Whether a text means infinity, and is no number that became it.
bool isInfinity(std::string_view text) { return text.find_first_of("iI") != std::string_view::npos; }

/// Stores the number that a field is. Returns what keeps it from being one of this type; empty for success.
std::string store(std::string_view text, char *to, DataType type) {
  if (isFloat(type)) {
    std::optional<double> number = parse<double>(text);
    if (!number)
      return "no number";
    writeNumber(to, type, *number);
    return std::isinf(readNumber(to, type)) && !isInfinity(text) ? concat("too large for ", nameOf(type)) : "";
  }
  std::optional<int64_t> number = parse<int64_t>(text);
  if (number)
    writeInteger(to, type, *number);
  bool fits = number && readInteger(to, type) == *number;
  return fits ? "" : concat("no whole number of the type ", nameOf(type));
}
} // namespace

std::optional<CsvPath> divisi::runtime::parseCsvPath(const std::string &path) {
  if (path.ends_with(".csv"))
    return CsvPath{path, {}};
  size_t at = path.find(".csv:");
  if (at == std::string::npos)
    return std::nullopt;
  CsvPath parsed{path.substr(0, at + 4), {}};
  for (size_t begin = at + 5; begin <= path.size();) {
    size_t end = std::min(path.find(',', begin), path.size());
    parsed.columns.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return parsed;
}

Result<std::shared_ptr<CsvFile>> CsvFile::open(const std::string &path) {
  Result<MappedFile> mapped = MappedFile::open(path);
  if (!mapped.ok())
    return failure(mapped.status().message(), didYouMeanFile(path));
  std::shared_ptr<CsvFile> csv(new CsvFile(std::move(*mapped)));
  if (Status status = csv->readHeader(); !status.ok())
    return status;
  if (Status status = csv->findRows(); !status.ok())
    return status;
  return csv;
}

Status CsvFile::readHeader() {
  std::string_view text = file.text();
  size_t begin = text.starts_with("\xef\xbb\xbf") ? 3 : 0; // a byte order mark
  Quotes quotes(delimiter);
  for (char c : text.substr(begin)) { // the delimiter is what follows the first name
    bool ends = !quotes.isOpen() && (c == ',' || c == ';' || c == '\t');
    if (ends)
      delimiter = c;
    if (ends || (!quotes.isOpen() && c == '\n'))
      break;
    quotes.pass(c);
  }
  size_t end = endOf(begin);
  if (end == std::string_view::npos)
    return failure("'", path(), "': the header opens quotes that nothing closes");
  std::string_view line = text.substr(begin, end - begin);
  if (text.substr(0, end).find('\0') != std::string_view::npos)
    return failure("'", path(), "' is no CSV file: it has bytes that are no text");
  if (end == text.size() && line.substr(0, line.size() - line.ends_with('\r')).find('\r') != std::string_view::npos)
    return failure("'", path(), "' has lines that end with a carriage return alone: tr '\\r' '\\n' converts it");
  bool isNamed = false;
  for (std::string_view field : fieldsOf(line)) {
    names.push_back(textOf(field));
    isNamed |= !parse<double>(names.back());
  }
  if (trim(line).empty() || !isNamed)
    return failure("'", path(), "' has no header: its first line is to name the columns");
  first = std::min(end + 1, text.size());
  return {};
}

size_t CsvFile::endOf(size_t begin) const {
  std::string_view text = file.text();
  Quotes quotes(delimiter);
  for (size_t i = begin; i < text.size(); ++i) {
    if (text[i] == '\n' && !quotes.isOpen())
      return i;
    quotes.pass(text[i]);
  }
  return quotes.isOpen() ? std::string_view::npos : text.size();
}

Status CsvFile::findRows() {
  std::string_view text = file.text();
  size_t last = text.size(), released = 0;
  while (last > first && (text[last - 1] == '\n' || text[last - 1] == '\r'))
    --last; // empty lines at the end
  for (size_t begin = first; begin < last; ++rowCount) {
    if (rowCount % step == 0)
      starts.push_back(begin);
    const size_t end = endOf(begin);
    if (end == std::string_view::npos)
      return failure("'", path(), "': row ", rowCount + 1, " below the header opens quotes that nothing closes");
    begin = end + 1;
    if (begin - released > (size_t(64) << 20)) {
      size_t passed = std::min(begin, text.size());
      file.release(released, passed - released);
      released = passed;
    }
  }
  return {};
}

std::vector<std::string_view> CsvFile::fieldsOf(std::string_view line) const {
  if (line.ends_with('\r'))
    line.remove_suffix(1);
  std::vector<std::string_view> fields;
  Quotes quotes(delimiter);
  size_t begin = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == delimiter && !quotes.isOpen()) {
      fields.push_back(line.substr(begin, i - begin));
      begin = i + 1;
    }
    quotes.pass(line[i]);
  }
  fields.push_back(line.substr(begin));
  return fields;
}

std::string CsvFile::textOf(std::string_view field) const {
  Quotes quotes(delimiter);
  std::string text;
  for (char c : field) {
    if (quotes.isText(c))
      text += c;
    quotes.pass(c);
  }
  return std::string(trim(text));
}

std::vector<std::string_view> CsvFile::row(int64_t index) const {
  size_t begin = near(index);
  for (int64_t i = index / step * step; i < index; ++i)
    begin = endOf(begin) + 1;
  return fieldsOf(file.text().substr(begin, endOf(begin) - begin));
}

Result<std::shared_ptr<CsvSamples>> CsvSamples::select(std::shared_ptr<const CsvFile> file,
                                                       const std::vector<std::string> &wanted) {
  std::shared_ptr<CsvSamples> samples(new CsvSamples(std::move(file)));
  const std::vector<std::string> &names = samples->file->header();
  for (const std::string &pattern : wanted) {
    size_t before = samples->indices.size();
    if (std::count(names.begin(), names.end(), pattern) > 1)
      return failure("'", samples->path(), "' has several columns '", pattern, "': its header must tell them apart");
    for (size_t i = 0; i < names.size(); ++i)
      if (matchesPattern(pattern, names[i]))
        samples->indices.push_back(i);
    if (samples->indices.size() == before)
      return failure("'", samples->path(), "' has no column '", pattern, "'", suggestion(pattern, names));
  }
  return samples;
}

std::string CsvSamples::placeOf(int64_t element) const {
  auto each = static_cast<int64_t>(indices.size());
  return concat("in row ", element / each, ", column '", file->header()[indices[static_cast<size_t>(element % each)]],
                "'");
}

std::string CsvSamples::describe(int64_t element, int64_t value) const {
  return concat("'", path(), "' has the value ", value, " ", placeOf(element));
}

Status CsvSamples::read(int64_t from, int64_t count, char *to, DataType type) const {
  auto each = static_cast<int64_t>(indices.size());
  std::vector<std::string_view> fields = file->row(from / each);
  if (fields.size() != file->header().size())
    return failure("'", path(), "' has ", fields.size(), " fields in row ", from / each, ", and ",
                   file->header().size(), " columns");
  for (int64_t i = 0; i < count; ++i) {
    std::string text = file->textOf(fields[indices[static_cast<size_t>((from + i) % each)]]);
    if (std::string problem = store(text, to + i * widthOf(type), type); !problem.empty())
      return failure("'", path(), "' has '", text.substr(0, 40), "' ", placeOf(from + i), ", which is ", problem);
  }
  return {};
}

void CsvSamples::willNeed(int64_t from, int64_t) const {
  size_t begin = file->near(from / static_cast<int64_t>(indices.size()));
  file->mapped().willNeed(begin, std::min<size_t>(file->mapped().size() - begin, size_t(64) << 10));
}
