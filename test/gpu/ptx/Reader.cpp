#include "test/gpu/ptx/Reader.h"

#include <cctype>
#include <charconv>

using namespace divisi::test::ptx;

void Reader::skip() {
  while (!atEnd()) {
    if (text[at] == '\n')
      ++row;
    if (std::isspace((unsigned char)text[at])) {
      ++at;
    } else if (text.substr(at, 2) == "//") {
      at = std::min(text.find('\n', at), text.size());
    } else if (text.substr(at, 2) == "/*") {
      size_t end = std::min(text.find("*/", at + 2), text.size() - 2) + 2;
      for (; at < end; ++at)
        row += text[at] == '\n';
    } else {
      return;
    }
  }
}

bool Reader::take(char mark) {
  if (peek() != mark)
    return false;
  ++at;
  skip();
  return true;
}

void Reader::expect(char mark) {
  if (!take(mark))
    fail(std::string("expected '") + mark + "' before '" + peek() + "'");
}

std::string_view Reader::word() {
  size_t begin = at;
  // (Directives of caches have colons within: .L1::no_allocate.)
  while (!atEnd() && (std::isalnum((unsigned char)text[at]) || std::string_view("_$%.").find(text[at]) != text.npos ||
                      text.substr(at, 2) == "::"))
    at += text[at] == ':' ? 2 : 1;
  std::string_view found = text.substr(begin, at - begin);
  skip();
  return found;
}

std::string_view Reader::expectWord() {
  std::string_view found = word();
  if (found.empty())
    fail(std::string("expected a word before '") + peek() + "'");
  return found;
}

uint64_t Reader::number() {
  bool negative = take('-');
  std::string_view found = expectWord();
  int base = 10;
  if (found.starts_with("0x") || found.starts_with("0X")) {
    found.remove_prefix(2);
    base = 16;
  }
  if (found.ends_with('U'))
    found.remove_suffix(1);
  uint64_t value = 0;
  auto [end, error] = std::from_chars(found.data(), found.data() + found.size(), value, base);
  if (error != std::errc() || end != found.data() + found.size())
    fail("'" + std::string(found) + "' is no number");
  return negative ? -value : value;
}

void Reader::skipLine() {
  at = std::min(text.find('\n', at), text.size());
  skip();
}
