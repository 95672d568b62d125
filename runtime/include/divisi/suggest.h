// What was meant by a name that is mistyped: for messages of the compiler, its tools, and programs.
#ifndef DIVISI_SUGGEST_H
#define DIVISI_SUGGEST_H

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace divisi {

/// The text in lower case, with control characters replaced: names of a file may hold anything, and a message is a line.
inline std::string plainName(std::string_view name, bool lower) {
  std::string text(name);
  auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0; };
  for (size_t i = 0; i < text.size(); ++i) {
    if (byte(i) == 0xc2 && byte(i + 1) >= 0x80 && byte(i + 1) < 0xa0) // C1 in UTF-8
      text[i] = text[i + 1] = ' ';
    else if (byte(i) < 0x20 || byte(i) == 0x7f)
      text[i] = ' ';
    else if (lower)
      text[i] = static_cast<char>(std::tolower(byte(i)));
  }
  return text;
}

/// The fewest insertions, deletions, replacements and swaps of neighbours that make one text of the other (optimal string
/// alignment: G. Navarro, "A Guided Tour to Approximate String Matching", 2001). O(n m) time.
inline size_t editDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> before, last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j)
    last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = last;
    std::swap(last, row);
  }
  return last[b.size()];
}

constexpr size_t mostNamesShown = 3, longestName = 256;

/// The candidates at the least distance, if it is at most a third of the name's length; at most three. Case is ignored.
template <typename Names> std::vector<std::string> namesByDistance(std::string_view name, const Names &candidates) {
  std::vector<std::string> nearest;
  std::string wanted = plainName(name, true);
  size_t least = std::max<size_t>(1, wanted.size() / 3);
  if (wanted.empty() || wanted.size() > longestName)
    return nearest;
  for (std::string_view candidate : candidates) {
    std::string known = plainName(candidate, true), shown = plainName(candidate, false);
    size_t longer = std::max(known.size(), wanted.size());
    if (longer > longestName || longer - std::min(known.size(), wanted.size()) > least)
      continue;
    size_t distance = editDistance(wanted, known);
    if (distance > least || distance == longer)
      continue;
    if (distance < least)
      nearest.clear();
    least = distance;
    if (nearest.size() < mostNamesShown && std::find(nearest.begin(), nearest.end(), shown) == nearest.end())
      nearest.push_back(shown);
  }
  return nearest;
}

/// The first three candidates that contain the name. Case is ignored.
template <typename Names> std::vector<std::string> namesContaining(std::string_view name, const Names &candidates) {
  std::vector<std::string> found;
  std::string wanted = plainName(name, true);
  for (std::string_view candidate : candidates)
    if (wanted.size() > 1 && found.size() < mostNamesShown && candidate.size() <= longestName &&
        plainName(candidate, true).find(wanted) != std::string::npos)
      found.push_back(plainName(candidate, false));
  return found;
}

/// The candidates that may have been meant: those near, else those that contain the name.
template <typename Names> std::vector<std::string> namesNear(std::string_view name, const Names &candidates) {
  std::vector<std::string> near = namesByDistance(name, candidates);
  return near.empty() ? namesContaining(name, candidates) : near;
}

/// "a, b or c", of numbers or names.
template <typename List> std::string listed(const List &list, const std::string &conjunction = "or") {
  std::string text;
  size_t i = 0;
  for (const auto &entry : list) {
    text += i == 0 ? "" : i + 1 < list.size() ? ", " : " " + conjunction + " ";
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(entry)>>)
      text += std::to_string(entry);
    else
      text += entry;
    ++i;
  }
  return text;
}

/// "'a', 'b' or 'c'"
inline std::string alternatives(std::vector<std::string> names) {
  for (std::string &name : names)
    name = "'" + name + "'";
  return listed(names);
}

/// "; did you mean 'x'?" if a candidate is near, else "".
template <typename Names> std::string didYouMean(std::string_view name, const Names &candidates) {
  std::vector<std::string> near = namesNear(name, candidates);
  return near.empty() ? "" : "; did you mean " + alternatives(near) + "?";
}

/// The same; where none is near, a list of the first candidates: "; there are: a, b, c and 12 more".
template <typename Names> std::string suggestion(std::string_view name, const Names &candidates) {
  constexpr size_t shown = 8;
  std::string text = didYouMean(name, candidates);
  if (!text.empty())
    return text;
  size_t count = 0;
  for (std::string_view candidate : candidates)
    if (count++ < shown)
      text += (text.empty() ? "; there are: " : ", ") + plainName(candidate, false);
  return text + (count > shown ? " and " + std::to_string(count - shown) + " more" : "");
}

/// "; did you mean 'x'?" with a file of the same folder, if a file is missing and another has nearly the same name.
inline std::string didYouMeanFile(const std::string &missing) {
  constexpr int most = 10000;
  std::error_code error;
  std::filesystem::path path(missing), folder = path.parent_path();
  if (std::filesystem::exists(path, error))
    return "";
  std::vector<std::string> names;
  std::filesystem::directory_iterator it(folder.empty() ? "." : folder, error), end;
  for (int i = 0; !error && it != end && i < most; it.increment(error), ++i)
    names.push_back(it->path().filename().string());
  std::sort(names.begin(), names.end());
  std::vector<std::string> near = namesNear(path.filename().string(), names);
  return near.empty() ? "" : "; did you mean '" + (folder.empty() ? near[0] : (folder / near[0]).string()) + "'?";
}

} // namespace divisi

#endif
