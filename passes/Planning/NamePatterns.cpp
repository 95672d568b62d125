#include "passes/Planning/NamePatterns.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

using namespace divisi;
using namespace divisi::planning;
using llvm::ArrayRef;
using llvm::StringRef;

/// The name with `*` for each number.
static std::string formOf(StringRef name) {
  std::string form;
  for (size_t i = 0; i < name.size(); ++i)
    if (!llvm::isDigit(name[i]))
      form += name[i];
    else if (i == 0 || !llvm::isDigit(name[i - 1]))
      form += '*';
  return form;
}

/// Whether the name is the pattern with numbers for its stars. Both have the same form.
static bool matchesPattern(StringRef pattern, StringRef name) {
  auto take = [](StringRef text) { return std::min(text.find_first_not_of("0123456789"), text.size()); };
  while (!pattern.empty() && !name.empty()) {
    size_t digits = take(name);
    if (pattern[0] == '*') {
      pattern = pattern.drop_front();
      name = name.drop_front(digits ? digits : 1);
    } else if (digits) {
      if (take(pattern) != digits || pattern.take_front(digits) != name.take_front(digits))
        return false;
      pattern = pattern.drop_front(digits), name = name.drop_front(digits);
    } else {
      pattern = pattern.drop_front(), name = name.drop_front();
    }
  }
  return pattern.empty() && name.empty();
}

NameIndex::NameIndex(std::vector<OpKey> all) : keys(std::move(all)) {
  for (auto [i, key] : llvm::enumerate(keys)) {
    if (key.node.empty())
      continue;
    byForm[formOf(key.node)].push_back(i);
    exact[key.node] = true;
    hasFunctions |= !key.function.empty();
  }
}

std::vector<int> NameIndex::matches(const OpKey &line) const {
  std::vector<int> found;
  auto form = byForm.find(formOf(line.node));
  if (form == byForm.end())
    return found;
  bool isName = exact.count(line.node);
  for (int i : form->second)
    if ((line.function.empty() || keys[i].function == line.function) &&
        (isName ? keys[i].node == line.node : matchesPattern(line.node, keys[i].node)))
      found.push_back(i);
  return found;
}

int NameIndex::openParts(const OpKey &line) const {
  int stars = exact.count(line.node) ? 0 : (int)llvm::count(line.node, '*');
  return stars + (hasFunctions && line.function.empty() ? 1 : 0);
}

llvm::SmallVector<std::pair<size_t, size_t>, 2> planning::layerNumbers(StringRef name, bool shared) {
  auto separates = [](char c) { return c == '.' || c == '/' || c == '_'; };
  StringRef path = name.take_front(std::min(name.rfind(':'), name.size()));
  size_t slash = path.rfind('/'), dot = path.rfind('.');
  path = path.take_front(slash != StringRef::npos ? slash + 1 : dot != StringRef::npos ? dot + 1 : 0);
  llvm::SmallVector<std::pair<size_t, size_t>, 2> found;
  for (size_t i = 0; i < path.size(); ++i) {
    size_t end = std::min(path.find_first_not_of("0123456789", i), path.size());
    if (end > i && (i == 0 || separates(path[i - 1])) && end < path.size() && separates(path[end]))
      found.push_back({i, end - i});
    i = std::max(i, end);
  }
  size_t last = name.find_last_not_of("0123456789") + 1;
  if (shared && last > 0 && last < name.size() && name[last - 1] == '.' && name.rfind(':') < last)
    found.push_back({last, name.size() - last});
  return found;
}

std::string planning::layerPattern(StringRef name) {
  std::string pattern;
  size_t from = 0;
  for (auto [at, length] : layerNumbers(name)) {
    pattern += (name.slice(from, at) + "*").str();
    from = at + length;
  }
  return pattern + name.drop_front(from).str();
}

namespace {
/// Lines for names of one form.
class DecisionGrouping {
public:
  using Lines = std::vector<std::pair<OpKey, int>>;

  explicit DecisionGrouping(ArrayRef<NamedDecision> all) : all(all) {}

  Lines run() {
    std::set<std::string> sharing; // forms of names with copies
    for (const NamedDecision &entry : all)
      if (entry.shared)
        sharing.insert(formWithCopies(entry));
    // By form, in the order of the first name of each.
    std::map<std::string, std::vector<int>> byForm;
    std::vector<std::vector<int> *> order;
    for (auto [i, entry] : llvm::enumerate(all)) {
      bool hasStar = entry.key.node.find('*') != std::string::npos; // such a name stands for itself alone
      if (hasStar)
        starred.insert(entry.key.node);
      numbers.emplace_back();
      if (!hasStar)
        numbers.back() = layerNumbers(entry.key.node, sharing.count(formWithCopies(entry)));
      if (numbers.back().size() > mostNumbers)
        numbers.back().resize(mostNumbers);
      auto [it, fresh] = byForm.try_emplace((hasStar ? "=" : "") + lineOf(i, (1u << numbers.back().size()) - 1, true).node);
      if (fresh)
        order.push_back(&it->second);
      it->second.push_back(i);
    }
    Lines lines;
    for (const std::vector<int> *form : order) {
      unsigned open = (1u << numbers[form->front()].size()) - 1;
      llvm::append_range(lines, solve(*form, open, /*openFunction=*/true, -1));
    }
    return lines;
  }

private:
  /// More numbers in a name than these are not grouped over.
  static constexpr size_t mostNumbers = 2;

  static std::string formWithCopies(const NamedDecision &entry) {
    std::string form = layerPattern(entry.key.node);
    return form.substr(0, form.find_last_not_of("0123456789") + 1);
  }

  bool isNeeded(int i, int inherited) const {
    return inherited < 0 ? all[i].needed : all[i].decision != inherited;
  }

  OpKey lineOf(int i, unsigned open, bool openFunction) const {
    OpKey line{openFunction ? "" : all[i].key.function, ""};
    StringRef name = all[i].key.node;
    size_t from = 0;
    for (auto [n, number] : llvm::enumerate(numbers[i])) {
      bool star = open & (1u << n);
      line.node += name.slice(from, star ? number.first : number.first + number.second);
      line.node += star ? "*" : "";
      from = number.first + number.second;
    }
    line.node += name.drop_front(from);
    return line;
  }

  /// The value of a part of a name: of a number, or the function.
  StringRef part(int i, int which) const {
    StringRef name = all[i].key.node;
    return which < 0 ? StringRef(all[i].key.function)
                     : name.substr(numbers[i][which].first, numbers[i][which].second);
  }

  /// Lines for these names, which differ in open parts only. A less specific line says `inherited` (-1: there is none).
  Lines solve(ArrayRef<int> items, unsigned open, bool openFunction, int inherited) {
    std::map<int, int> counts;
    for (int i : items)
      if (isNeeded(i, inherited))
        ++counts[all[i].decision];
    if (counts.empty())
      return {};
    if (items.size() == 1)
      return {{lineOf(items[0], 0, false), all[items[0]].decision}};
    Lines best = divide(items, open, openFunction, inherited);
    auto common = std::max_element(counts.begin(), counts.end(), [](auto &a, auto &b) { return a.second < b.second; });
    Lines lines{{lineOf(items[0], open, openFunction), common->first}};
    if (open && starred.count(lines[0].first.node))
      return best;
    llvm::append_range(lines, divide(items, open, openFunction, common->first));
    return lines.size() < best.size() ? lines : best;
  }

  /// The fewest lines where one open part is decided value by value.
  Lines divide(ArrayRef<int> items, unsigned open, bool openFunction, int inherited) {
    std::optional<Lines> best;
    for (int which = -1; which < (int)mostNumbers; ++which) {
      if (which < 0 ? !openFunction : !(open & (1u << which)))
        continue;
      std::vector<std::pair<StringRef, std::vector<int>>> groups;
      for (int i : items) {
        auto group = llvm::find_if(groups, [&](auto &other) { return other.first == part(i, which); });
        if (group == groups.end())
          group = groups.insert(groups.end(), {part(i, which), {}});
        group->second.push_back(i);
      }
      Lines lines;
      for (const auto &[value, members] : groups)
        llvm::append_range(lines, solve(members, which < 0 ? open : open & ~(1u << which), openFunction && which >= 0,
                                        inherited));
      if (!best || lines.size() < best->size())
        best = std::move(lines);
    }
    return best.value_or(Lines());
  }

  ArrayRef<NamedDecision> all;
  std::vector<llvm::SmallVector<std::pair<size_t, size_t>, 2>> numbers; // by name
  std::set<std::string> starred;                                        // names with stars of their own
};
} // namespace

std::vector<std::pair<OpKey, int>> planning::groupDecisions(ArrayRef<NamedDecision> decisions) {
  return DecisionGrouping(decisions).run();
}
