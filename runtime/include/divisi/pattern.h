// Patterns of names: of parameters, in flags.
#ifndef DIVISI_PATTERN_H
#define DIVISI_PATTERN_H

#include <string_view>

namespace divisi {

/// Whether a whole name matches a pattern, in which * stands for any text and ? for any character. O(n m) time.
inline bool matchesPattern(std::string_view pattern, std::string_view name) {
  constexpr size_t none = std::string_view::npos;
  size_t p = 0, n = 0, star = none, resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++, resume = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p, ++n;
    } else if (star != none) {
      p = star + 1, n = ++resume;
    } else {
      return false;
    }
  }
  return pattern.substr(p).find_first_not_of('*') == none;
}

} // namespace divisi

#endif
