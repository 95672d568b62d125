#include "passes/Planning/Nesting.h"

#include "llvm/ADT/StringExtras.h"

using namespace divisi;
using llvm::StringRef;

bool divisi::nestsTooDeep(StringRef text, int most) {
  int depth = 0;
  bool inString = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (inString) {
      i += c == '\\';
      inString = c != '"';
    } else if (c == '"') {
      inString = true;
    } else if (c == '/' && text.substr(i + 1).starts_with("/")) {
      i = std::min(text.find('\n', i), text.size());
    } else if (c == '[' || c == '{' || c == '(' || (c == '<' && !text.substr(i + 1).starts_with("="))) {
      if (++depth > most)
        return true;
    } else if (c == ']' || c == '}' || c == ')' || (c == '>' && i > 0 && text[i - 1] != '-')) {
      depth = std::max(0, depth - 1);
    }
  }
  return false;
}

/// The next place from `i` on that is neither space nor in a comment.
static size_t skipSpace(StringRef text, size_t i) {
  while (i < text.size() && (llvm::isSpace(text[i]) || text.substr(i).starts_with("//")))
    i = text[i] == '/' ? std::min(text.find('\n', i), text.size()) : i + 1;
  return i;
}

bool divisi::hasIndexArray(StringRef text) {
  for (size_t i = skipSpace(text, 0); i < text.size(); i = skipSpace(text, i)) {
    if (text[i] == '"') {
      for (++i; i < text.size() && text[i] != '"'; ++i)
        i += text[i] == '\\';
    } else if (text.substr(i).consume_front("array")) {
      i = skipSpace(text, i + 5);
      if (!text.substr(i).starts_with("<"))
        continue;
      i = skipSpace(text, i + 1);
      if (text.substr(i).starts_with("index") || text.substr(i).starts_with("!"))
        return true;
      continue;
    }
    ++i;
  }
  return false;
}
