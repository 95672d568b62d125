#include "compiler/Report/Repeats.h"

#include "compiler/Report/Lines.h"
#include "compiler/Report/Numbers.h"
#include "passes/Planning/NamePatterns.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <map>
#include <numeric>
#include <set>

using namespace divisi;
using namespace divisi::compiler;
namespace json = llvm::json;
using llvm::StringRef;

namespace {

/// Layers that take less than this share of a step are counted in one line.
constexpr double leastShare = 0.001;
/// The number of layers that are listed, the slowest ones, of those with their collectives, and of parameters, the
/// largest ones. The others are counted in one line.
constexpr size_t mostLayers = 20, mostExplained = 12, mostOfLargest = 12;
/// The number of collectives of a layer that are listed, and of other shardings of a parameter, the best ones.
constexpr size_t mostCollectives = 2, mostShardings = 2;

using Members = std::vector<const json::Object *>;

/// Entries with equal keys, in the order of the first ones.
std::vector<std::pair<std::string, Members>> grouped(const json::Array &entries,
                                                     llvm::function_ref<std::string(const json::Object &)> keyOf) {
  std::vector<std::pair<std::string, Members>> groups;
  std::map<std::string, size_t> known;
  for (const json::Value &value : entries) {
    const json::Object &entry = *value.getAsObject();
    auto [it, fresh] = known.try_emplace(keyOf(entry), groups.size());
    if (fresh)
      groups.push_back({it->first, {}});
    groups[it->second].second.push_back(&entry);
  }
  return groups;
}

/// A text of words with `*` for the numbers of layers, if `several`.
std::string patternOf(StringRef words, bool several) {
  if (!several)
    return words.str();
  std::string result;
  llvm::SmallVector<StringRef> parts;
  words.split(parts, ' ');
  for (StringRef part : parts)
    result += (result.empty() ? "" : " ") + planning::layerPattern(part);
  return result;
}

double sum(const Members &members, StringRef key) {
  double total = 0;
  for (const json::Object *member : members)
    total += number(*member, key);
  return total;
}

std::string shapeOf(const json::Object &parameter) {
  std::string shape;
  for (const json::Value &size : list(parameter, "shape"))
    shape += (shape.empty() ? "" : "x") + std::to_string(size.getAsInteger().value_or(0));
  return shape;
}

std::string times(size_t count) { return count > 1 ? std::to_string(count) + " x " : ""; }

void printOtherShardings(const Members &members, llvm::raw_ostream &out) {
  Members others;
  for (const json::Object *member : members)
    for (const json::Value &value : list(*member, "alternatives"))
      others.push_back(value.getAsObject());
  llvm::stable_sort(others, [](const json::Object *a, const json::Object *b) {
    bool fits = a->getBoolean("fits").value_or(true), otherFits = b->getBoolean("fits").value_or(true);
    return fits != otherFits ? fits : number(*a, "step_ms") < number(*b, "step_ms");
  });
  for (const json::Object *other : llvm::ArrayRef(others).take_front(mostShardings))
    out << "    " << text(*other, "sharding") << " would take " << digits(number(*other, "step_ms"))
        << " ms: " << text(*other, "why_not") << "\n";
}

/// Prints the collectives of equal layers: equal ones as one, those that take longest first.
void printCollectives(const Members &layers, llvm::raw_ostream &out) {
  json::Array all;
  for (const json::Object *layer : layers)
    for (const json::Value &value : list(*layer, "collectives"))
      all.push_back(value);
  auto groups = grouped(all, [&](const json::Object &collective) {
    return text(collective, "kind") + " over " + joined(list(collective, "axes"), "+") + ", " +
           scaled(number(collective, "bytes"), "B") + "\n" + patternOf(text(collective, "reason"), layers.size() > 1);
  });
  llvm::stable_sort(groups, [](const auto &a, const auto &b) {
    auto order = [](const Members &list) { return std::pair(sum(list, "exposed_ms"), sum(list, "ms")); };
    return order(a.second) > order(b.second);
  });
  Members rest;
  for (auto [i, group] : llvm::enumerate(groups)) {
    auto [what, reason] = StringRef(group.first).split('\n');
    if (i >= mostCollectives) {
      llvm::append_range(rest, group.second);
      continue;
    }
    out << "    " << times(group.second.size()) << what << (group.second.size() > 1 ? " each, " : ", ")
        << digits(sum(group.second, "ms")) << " ms (" << digits(sum(group.second, "exposed_ms"))
        << " exposed): " << reason << "\n";
  }
  if (!rest.empty())
    out << "    " << rest.size() << " more, " << digits(sum(rest, "ms")) << " ms (" << digits(sum(rest, "exposed_ms"))
        << " exposed)\n";
}

double timeOf(const Members &layers) {
  return sum(layers, "forward_ms") + sum(layers, "backward_ms") + sum(layers, "exposed_ms");
}
} // namespace

void compiler::printParameters(const json::Array &parameters, llvm::raw_ostream &out) {
  const size_t sharded = llvm::count_if(parameters, [](const json::Value &value) {
    return llvm::any_of(text(*value.getAsObject(), "sharding"), [](char c) { return llvm::isAlpha(c); });
  });
  out << "\nParameters (" << sharded << " of " << parameters.size() << " sharded)\n";
  auto groups = grouped(parameters, [](const json::Object &parameter) {
    return planning::layerPattern(text(parameter, "name")) + " " + shapeOf(parameter) + ": " +
           text(parameter, "sharding") + ", " + scaled(number(parameter, "local_bytes"), "B");
  });
  std::vector<size_t> largest(groups.size());
  std::iota(largest.begin(), largest.end(), 0);
  llvm::stable_sort(largest, [&](size_t a, size_t b) {
    return sum(groups[a].second, "local_bytes") > sum(groups[b].second, "local_bytes");
  });
  std::set<size_t> listed(largest.begin(), largest.begin() + std::min(largest.size(), mostOfLargest));
  Members rest;
  for (const auto &[place, group] : llvm::enumerate(groups)) {
    const auto &[line, members] = group;
    if (!listed.count(place)) {
      llvm::append_range(rest, members);
      continue;
    }
    if (members.size() > 1)
      out << "  " << times(members.size()) << line << " each on a device\n";
    else
      out << "  " << text(*members[0], "name") << " " << shapeOf(*members[0]) << ": " << text(*members[0], "sharding")
          << ", " << scaled(number(*members[0], "local_bytes"), "B") << " on a device\n";
    printOtherShardings(members, out);
  }
  if (!rest.empty())
    out << "  " << rest.size() << " smaller ones, " << scaled(sum(rest, "local_bytes"), "B") << " on a device\n";
}

void compiler::printLayers(const json::Array &layers, double step, llvm::raw_ostream &out) {
  out << "\nLayers, the slowest first (ms; a line is the sum of its layers)\n";
  auto groups = grouped(layers, [](const json::Object &layer) {
    return planning::layerPattern(text(layer, "name") + "/");
  });
  llvm::stable_sort(groups, [](const auto &a, const auto &b) { return timeOf(a.second) > timeOf(b.second); });
  constexpr int widest = 40;
  auto print = [&](const std::string &name, const Members &members) {
    row(out, {{name, widest},
              {digits(sum(members, "forward_ms")), -9},
              {digits(sum(members, "backward_ms")), -9},
              {digits(sum(members, "exposed_ms")), -9},
              {digits(sum(members, "overlapped_ms")), -10},
              {scaled(sum(members, "parameter_bytes"), "B"), -9}});
  };
  row(out, {{"layer", widest}, {"forward", -9}, {"backward", -9}, {"exposed", -9}, {"overlapped", -10}, {"weights", -9}});
  Members rest;
  size_t shown = 0;
  for (auto &[pattern, members] : groups) {
    std::string name = members.size() > 1 ? StringRef(pattern).drop_back().str() : text(*members[0], "name");
    if (shown == mostLayers || (timeOf(members) < leastShare * step && groups.size() > mostCollectives)) {
      llvm::append_range(rest, members);
      continue;
    }
    ++shown;
    print(times(members.size()) + (name.empty() ? "(update and operations without a node)" : name), members);
    if (shown <= mostExplained)
      printCollectives(members, out);
  }
  if (!rest.empty())
    print(std::to_string(rest.size()) + " other layers", rest);
}
