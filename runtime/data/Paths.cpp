#include "runtime/data/Paths.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <glob.h>

using namespace divisi::runtime;

namespace {
constexpr int64_t mostFiles = 1'000'000;

std::optional<int64_t> numberOf(std::string_view digits) {
  int64_t number = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  bool good = error == std::errc() && end == digits.data() + digits.size() && number >= 0;
  return good ? std::optional(number) : std::nullopt;
}

/// The paths of a path with {FIRST..LAST}, whose numbers have as many digits as FIRST; none if it has no such range.
std::vector<std::string> expandRange(const std::string &path) {
  std::vector<std::string> paths;
  size_t open = path.find('{'), dots = path.find("..", open), close = path.find('}', open);
  if (open == std::string::npos || dots == std::string::npos || close == std::string::npos || close < dots)
    return paths;
  std::string first = path.substr(open + 1, dots - open - 1);
  std::optional<int64_t> from = numberOf(first), to = numberOf(path.substr(dots + 2, close - dots - 2));
  if (!from || !to || *to - *from >= mostFiles)
    return paths;
  for (int64_t i = 0; i <= *to - *from; ++i) {
    std::string digits = std::to_string(*from + i);
    digits.insert(0, first.size() - std::min(first.size(), digits.size()), '0');
    paths.push_back(path.substr(0, open) + digits + path.substr(close + 1));
  }
  return paths;
}
} // namespace

Result<std::vector<std::string>> divisi::runtime::expandPattern(const std::string &path) {
  std::error_code error;
  if (std::filesystem::exists(path, error))
    return std::vector{path};
  if (std::vector<std::string> paths = expandRange(path); !paths.empty())
    return paths;
  if (path.find_first_of("*?[") == std::string::npos)
    return std::vector{path};
  glob_t found = {};
  int code = ::glob(path.c_str(), GLOB_ERR, nullptr, &found);
  std::vector<std::string> paths(found.gl_pathv, found.gl_pathv + (code == 0 ? found.gl_pathc : 0));
  globfree(&found);
  std::sort(paths.begin(), paths.end());
  if (code != 0)
    return failure(code == GLOB_NOMATCH ? "no file matches '" : "cannot read the folder of '", path, "'");
  return paths;
}
