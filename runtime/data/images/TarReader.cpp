#include "runtime/data/images/TarReader.h"
#include "divisi/file_kind.h"

#include <algorithm>
#include <charconv>
#include <optional>

using namespace divisi;
using namespace divisi::runtime;

namespace {
constexpr int64_t block = 512;
/// Longer names are no names.
constexpr int64_t mostNameBytes = 1 << 20;

/// A field up to its first zero.
std::string_view textOf(std::string_view field) { return field.substr(0, field.find('\0')); }

/// Octal digits, or the 63 bits that GNU tar writes for large numbers.
std::optional<int64_t> numberOf(std::string_view field) {
  if (!field.empty() && static_cast<unsigned char>(field[0]) == 0x80) {
    uint64_t number = 0;
    for (char c : field.substr(field.size() - 8))
      number = number << 8 | static_cast<unsigned char>(c);
    if (field.substr(1, field.size() - 9).find_first_not_of('\0') != std::string_view::npos)
      return std::nullopt;
    return number <= uint64_t(INT64_MAX) ? std::optional(static_cast<int64_t>(number)) : std::nullopt;
  }
  field = textOf(field);
  while (field.starts_with(' '))
    field.remove_prefix(1);
  while (field.ends_with(' '))
    field.remove_suffix(1);
  int64_t number = 0;
  auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), number, 8);
  bool good = error == std::errc() && end == field.data() + field.size() && number >= 0;
  return good ? std::optional(number) : std::nullopt;
}

/// Whether the header's sum of bytes is what it says, its own field counted as spaces.
bool isHeader(std::string_view header) {
  int64_t sum = 0;
  for (size_t i = 0; i < header.size(); ++i)
    sum += i >= 148 && i < 156 ? ' ' : static_cast<unsigned char>(header[i]);
  return numberOf(header.substr(148, 8)) == sum;
}

/// What a pax header says of the member that follows: records "LENGTH KEY=VALUE\n".
struct Extended {
  std::optional<std::string> name;
  std::optional<int64_t> bytes;
  bool isSparse = false;

  /// Returns whether the records are valid.
  bool read(std::string_view records) {
    while (!records.empty()) {
      size_t length = 0, space = records.find(' ');
      if (space == std::string_view::npos)
        return false;
      auto [end, error] = std::from_chars(records.data(), records.data() + space, length);
      if (error != std::errc() || end != records.data() + space || length < space + 2 || length > records.size())
        return false;
      std::string_view record = records.substr(space + 1, length - space - 2);
      records.remove_prefix(length);
      isSparse |= record.starts_with("GNU.sparse.");
      if (record.starts_with("path="))
        setName(record.substr(5));
      if (record.starts_with("size=")) {
        int64_t number = 0;
        auto [last, wrong] = std::from_chars(record.data() + 5, record.data() + record.size(), number);
        if (wrong != std::errc() || last != record.data() + record.size() || number < 0)
          return false;
        bytes = number;
      }
    }
    return true;
  }
  /// An empty name is none: that of the member's own header counts.
  void setName(std::string_view text) { name = text.empty() ? std::nullopt : std::optional(std::string(text)); }
};

/// What a member is that has no contents; null for regular files.
const char *otherKind(char type) {
  switch (type) {
  case '0':
  case '\0':
  case '7':
    return nullptr;
  case '1':
    return "a hard link";
  case '2':
    return "a symbolic link";
  case '6':
    return "a FIFO";
  default:
    return "no regular file";
  }
}

bool isZero(std::string_view text) { return text.find_first_not_of('\0') == std::string_view::npos; }
} // namespace

Status divisi::runtime::forEachMember(std::string_view text, const std::function<Status(const TarMember &)> &visit) {
  auto size = static_cast<int64_t>(text.size());
  Extended extended;
  for (int64_t at = 0; at < size;) {
    if (size - at < block)
      return failure("is truncated");
    std::string_view header = text.substr(static_cast<size_t>(at), block);
    if (isZero(header))
      return isZero(text.substr(static_cast<size_t>(at)))
                 ? Status()
                 : failure("goes on behind its end at byte ", at,
                           ", as files do that were joined: give them one by one, or pack them again");
    std::optional<int64_t> bytes = numberOf(header.substr(124, 12));
    if (!isHeader(header) || !bytes) {
      FileKind kind = at == 0 ? kindOfFile(text) : FileKind::unknown;
      return failure(at == 0 ? "is no tar file" : concat("is damaged at byte ", at),
                     kind == FileKind::unknown ? "" : concat("; it looks like ", nameOf(kind)),
                     kind == FileKind::gzip ? ": unpack it by gunzip, because members are read in any order" : "");
    }
    char type = header[156];
    const char *other = otherKind(type);
    bool isFile = !other, isText = type == 'L' || type == 'x' || type == 'g' || type == 'K';
    if (isFile && extended.bytes)
      bytes = extended.bytes;
    at += block;
    if (*bytes > size - at)
      return failure("is truncated: a member of ", *bytes, " bytes ends behind it");
    std::string_view contents = text.substr(static_cast<size_t>(at), static_cast<size_t>(*bytes));
    if (isText && *bytes > mostNameBytes)
      return failure("is damaged: a member's name has ", *bytes, " bytes");
    if (type == 'L')
      extended.setName(textOf(contents));
    else if (type == 'x' && !extended.read(contents))
      return failure("is damaged at byte ", at);
    else if (type == 'S' || extended.isSparse)
      return failure("has a sparse member at byte ", at - block, ": pack it without --sparse");
    if (Extended all; type == 'g' && (!all.read(contents) || all.name || all.bytes))
      return failure("is damaged at byte ", at, ": a name or a size for all members");
    if (!isText && type != '5') {
      std::string_view prefix =
          header.substr(257, 6) == std::string_view("ustar\0", 6) ? textOf(header.substr(345, 155)) : "";
      std::string name(textOf(header.substr(0, 100)));
      if (!prefix.empty())
        name = concat(prefix, "/", name);
      if (Status status = visit({extended.name.value_or(name), at, *bytes, other}); !status.ok())
        return status;
    }
    if (!isText)
      extended = {};
    at += std::min((*bytes + block - 1) / block * block, size - at);
  }
  return size == 0 ? failure("is no tar file; it looks like ", nameOf(kindOfFile(text)))
                   : failure("is truncated: it has no block of zeros at its end");
}
