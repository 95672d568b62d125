#include "passes/Planning/Nesting.h"

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
