#include "runtime/main/OneLine.h"

using namespace divisi::runtime;

namespace {
/// The bytes of the UTF-8 character that a text begins with, 0 if it is none, and the character.
std::pair<size_t, char32_t> firstOf(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned char lead = byte(0);
  size_t length = lead < 0x80 ? 1 : lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc2 ? 2 : 0;
  if (length == 0 || lead > 0xf4 || length > text.size())
    return {0, 0};
  char32_t character = length == 1 ? lead : lead & (0x7fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80)
      return {0, 0};
    character = character << 6 | (byte(i) & 0x3f);
  }
  constexpr char32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  bool exists = character >= least[length] && character <= 0x10ffff && (character < 0xd800 || character > 0xdfff);
  return {exists ? length : 0, character};
}

/// Control characters (C0, DEL, C1), separators of lines and paragraphs, and those that change the direction of text.
bool commands(char32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x61c || c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e) ||
         (c >= 0x2066 && c <= 0x2069);
}
} // namespace

std::string divisi::runtime::oneLine(std::string_view message) {
  std::string text;
  while (!message.empty()) {
    auto [length, character] = firstOf(message);
    size_t taken = length == 0 ? 1 : length;
    text += length == 0 || commands(character) ? printable(message.substr(0, taken)) : std::string(message.substr(0, taken));
    message.remove_prefix(taken);
  }
  return text;
}
