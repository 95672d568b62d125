#include "passes/Planning/Nesting.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace divisi;
using llvm::StringRef;

/// More than any dump has, and far less than a stack holds.
static constexpr int mostOfDumps = 500;

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

bool divisi::dumpNestsTooDeep(const std::string &file) {
  if (!llvm::sys::fs::is_regular_file(file))
    return false;
  auto buffer = llvm::MemoryBuffer::getFile(file);
  return buffer && nestsTooDeep((*buffer)->getBuffer(), mostOfDumps);
}
