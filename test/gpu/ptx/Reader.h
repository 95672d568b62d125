#pragma once
#include "test/gpu/ptx/Text.h"

namespace divisi::test::ptx {

/// Takes words and marks from a text, without comments.
class Reader {
public:
  explicit Reader(std::string_view text) : text(text) { skip(); }

  bool atEnd() const { return at >= text.size(); }
  char peek() const { return atEnd() ? '\0' : text[at]; }
  int line() const { return row; }
  /// Takes the mark if it is next.
  bool take(char mark);
  void expect(char mark);
  /// A name, a number or a directive: letters, digits and any of `_$%.`; may be empty.
  std::string_view word();
  std::string_view expectWord();
  uint64_t number();
  /// What is left of this line.
  void skipLine();
  [[noreturn]] void fail(const std::string &what) const { throw Error(row, what); }

private:
  void skip();
  std::string_view text;
  size_t at = 0;
  int row = 1;
};

} // namespace divisi::test::ptx
