#include "test/fuzz/compiler/Tokens.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <random>
#include <vector>

using namespace divisi;

namespace {

using Token = std::string_view;

const char *const numbers[] = {"0", "-1", "1", "2", "3", "7", "64", "65537", "4294967296", "9223372036854775807", "-9223372036854775808",
                               "99999999999999999999", "1e308", "-0.0", "0.5", "1e-320", "0x7FC00000"};
const char *const words[] = {"i1", "i64", "f32", "bf16", "f64", "ui8", "index", "none", "unit", "[]", "{}", "\"\"", "true", "false",
                             "null", "tensor<0xf32>", "tensor<2x2xf32>", "tensor<?xf32>", "tensor<*xf32>", "dense<1>", "array<i64>",
                             "array<i64: 0, 0>", "array<i64: -1>", "#dist.shard<_>", "1 : i8", "\"nan\"", "nan", "inf", "\"1GB\""};

bool inWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '$'; }

size_t endOf(std::string_view text, size_t at) {
  char c = text[at];
  size_t end = at + 1;
  if (c == '"') {
    while (end < text.size() && text[end] != '"' && text[end] != '\n')
      end += text[end] == '\\' ? 2 : 1;
    return std::min(end + 1, text.size());
  }
  if (std::isspace(static_cast<unsigned char>(c)))
    while (end < text.size() && std::isspace(static_cast<unsigned char>(text[end])))
      ++end;
  else if (inWord(c) || (c == '-' && end < text.size() && std::isdigit(static_cast<unsigned char>(text[end]))))
    while (end < text.size() && inWord(text[end]))
      ++end;
  return end;
}

std::vector<Token> split(std::string_view text) {
  std::vector<Token> tokens;
  for (size_t at = 0; at < text.size();) {
    size_t end = endOf(text, at);
    tokens.push_back(text.substr(at, end - at));
    at = end;
  }
  return tokens;
}

bool isSpace(Token token) { return std::isspace(static_cast<unsigned char>(token[0])); }
bool isNumber(Token token) { return std::isdigit(static_cast<unsigned char>(token[token.size() > 1 && token[0] == '-'])); }

/// One change of a list of tokens.
class Damage {
public:
  Damage(std::vector<Token> &tokens, std::minstd_rand &random) : tokens(tokens), random(random) {}

  void apply() {
    switch (random() % 10) {
    case 0:
      return replace(any(), 1, {});
    case 1:
      return insert(any(), {tokens[any()]});
    case 2:
      return std::swap(tokens[any()], tokens[any()]);
    case 3:
      return replace(any(), 1, {words[random() % std::size(words)]});
    case 4:
    case 5:
      return number();
    case 6:
    case 7:
      return group();
    case 8:
      return line();
    default:
      return like();
    }
  }

private:
  size_t below(size_t count) { return random() % count; }
  size_t any() {
    for (int i = 0; i < 8; ++i)
      if (size_t k = below(tokens.size()); !isSpace(tokens[k]))
        return k;
    return below(tokens.size());
  }
  /// The next token from a random place on for which something holds; an arbitrary one if there is none.
  template <typename Predicate> size_t next(Predicate holds) {
    size_t from = below(tokens.size());
    for (size_t i = 0; i < tokens.size(); ++i)
      if (size_t k = (from + i) % tokens.size(); holds(tokens[k]))
        return k;
    return from;
  }
  void insert(size_t at, const std::vector<Token> &fresh) { tokens.insert(tokens.begin() + at, fresh.begin(), fresh.end()); }
  void replace(size_t at, size_t count, const std::vector<Token> &fresh) {
    tokens.erase(tokens.begin() + at, tokens.begin() + at + count);
    insert(at, fresh);
  }
  std::vector<Token> copy(size_t at, size_t count) { return {tokens.begin() + at, tokens.begin() + at + count}; }

  void number() { tokens[next(isNumber)] = numbers[below(std::size(numbers))]; }

  /// A word by a word, a text by a text.
  void like() {
    size_t k = any();
    char first = tokens[k][0];
    bool word = inWord(first);
    tokens[k] = tokens[next([&](Token t) { return word ? inWord(t[0]) : t[0] == first; })];
  }

  /// Tokens from an opening bracket to the one that closes it.
  size_t reach(size_t at) {
    int depth = 0;
    for (size_t k = at; k < tokens.size(); ++k) {
      char c = tokens[k].size() == 1 ? tokens[k][0] : 0;
      depth += c == '(' || c == '[' || c == '{' || c == '<';
      depth -= c == ')' || c == ']' || c == '}' || (c == '>' && k > 0 && tokens[k - 1] != "-");
      if (depth <= 0)
        return k + 1 - at;
    }
    return tokens.size() - at;
  }
  void group() {
    constexpr std::string_view open = "([{<";
    size_t at = next([&](Token t) { return open.find(t[0]) != open.npos; });
    char bracket = tokens[at][0];
    size_t other = next([&](Token t) { return t[0] == bracket; });
    switch (size_t count = reach(at); below(4)) {
    case 0:
      return replace(at, count, {});
    case 1:
      return count > 2 ? replace(at + 1, count - 2, {}) : number();
    default:
      return replace(at, count, copy(other, reach(other)));
    }
  }

  void line() {
    auto isEnd = [](Token t) { return t.find('\n') != t.npos; };
    auto bounds = [&] {
      size_t from = next(isEnd), to = from + 1;
      while (to < tokens.size() && !isEnd(tokens[to]))
        ++to;
      return std::pair(from, to - from);
    };
    auto [from, count] = bounds();
    auto [other, otherCount] = bounds();
    switch (below(3)) {
    case 0:
      return replace(from, count, {});
    case 1:
      return insert(from, copy(other, otherCount));
    default:
      return replace(from, count, copy(other, otherCount));
    }
  }

  std::vector<Token> &tokens;
  std::minstd_rand &random;
};

} // namespace

size_t fuzz::mutateTokens(uint8_t *data, size_t size, size_t most, unsigned seed) {
  std::minstd_rand random(seed);
  random.discard(2);
  std::string text(fuzz::text(data, size));
  std::vector<Token> tokens = split(text);
  if (tokens.empty() || random() % 8 == 0)
    return LLVMFuzzerMutate(data, size, most);
  for (unsigned changes = random() % 3 + 1; changes > 0 && !tokens.empty(); --changes)
    Damage(tokens, random).apply();
  std::string result;
  for (Token token : tokens)
    result += token;
  if (result.empty() || result.size() > most)
    return LLVMFuzzerMutate(data, size, most);
  std::memcpy(data, result.data(), result.size());
  return result.size();
}
