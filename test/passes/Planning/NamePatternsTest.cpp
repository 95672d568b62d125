#include "passes/Planning/NamePatterns.h"

#include "llvm/ADT/StringExtras.h"

#include <gtest/gtest.h>

#include <random>
#include <regex>
#include <set>

using namespace divisi::planning;

namespace {

/// Lines as text: "@train /blocks.*/fc:0 = 2".
std::vector<std::string> texts(const std::vector<std::pair<OpKey, int>> &lines) {
  std::vector<std::string> result;
  for (const auto &[key, decision] : lines)
    result.push_back((key.function.empty() ? "" : "@" + key.function + " ") + key.node + " = " + std::to_string(decision));
  return result;
}

using Texts = std::vector<std::string>;

/// Whether a line refers to a key, by a regular expression.
bool refersTo(const OpKey &line, const OpKey &key, const std::set<std::string> &names) {
  if (!line.function.empty() && line.function != key.function)
    return false;
  if (names.count(line.node))
    return line.node == key.node;
  std::string pattern;
  for (char c : line.node)
    pattern += c == '*' ? "([0-9]+|[*])" : std::isalnum((unsigned char)c) ? std::string(1, c) : std::string("\\") + c;
  if (!std::regex_match(key.node, std::regex(pattern)))
    return false;
  // A star stands for a whole number: never for a part of its digits.
  std::string form = std::regex_replace(line.node, std::regex("[0-9]+"), "*");
  return form == std::regex_replace(key.node, std::regex("[0-9]+"), "*");
}

int openParts(const OpKey &line, const std::set<std::string> &names) {
  return (names.count(line.node) ? 0 : (int)std::count(line.node.begin(), line.node.end(), '*')) + line.function.empty();
}
} // namespace

TEST(NamePatterns, numbersOfLayers) {
  auto of = [](llvm::StringRef name) {
    std::vector<std::string> found;
    for (auto [at, length] : layerNumbers(name))
      found.push_back(name.substr(at, length).str());
    return found;
  };
  EXPECT_EQ(of("/blocks.12/attn/MatMul_1:0.grad.3"), Texts({"12"}));
  EXPECT_EQ(of("blocks.3.mlp.fc.weight:update.7"), Texts({"3"}));
  EXPECT_EQ(of("layer_0/attention/query/MatMul:0"), Texts({"0"}));
  EXPECT_EQ(of("/layers.1/experts.20/w"), Texts({"1", "20"}));
  EXPECT_EQ(of("layer1.0.conv1.weight"), Texts({"0"}));
  EXPECT_EQ(of("/MatMul_17:0"), Texts());
  EXPECT_EQ(of("update:9"), Texts());
  EXPECT_EQ(of(""), Texts());
  EXPECT_EQ(of("1"), Texts());
}

TEST(NamePatterns, equalLayersShareALine) {
  std::vector<NamedDecision> decisions;
  for (int layer = 0; layer < 12; ++layer)
    for (const char *function : {"train", "evaluate"})
      decisions.push_back({{function, "/h." + std::to_string(layer) + "/fc/MatMul:0"}, 1, true});
  EXPECT_EQ(texts(groupDecisions(decisions)), Texts({"/h.*/fc/MatMul:0 = 1"}));
  decisions[6] = {{"train", "/h.3/fc/MatMul:0"}, 2, false}; // follows by itself: it needs to be said beside the pattern
  EXPECT_EQ(texts(groupDecisions(decisions)), Texts({"/h.*/fc/MatMul:0 = 1", "@train /h.3/fc/MatMul:0 = 2"}));
  for (NamedDecision &entry : decisions)
    entry.needed = entry.key.node == "/h.5/fc/MatMul:0";
  EXPECT_EQ(texts(groupDecisions(decisions)), Texts({"/h.5/fc/MatMul:0 = 1"}));
}

TEST(NamePatterns, aNumberIsNeverSplit) {
  NameIndex index({{"", "h.1.w"}, {"", "h.11.w"}, {"", "h.*.b"}, {"", "h.2.b"}, {"", ""}});
  EXPECT_EQ(index.matches({"", "h.*.w"}), std::vector<int>({0, 1}));
  EXPECT_EQ(index.matches({"", "h.1*.w"}), std::vector<int>());
  EXPECT_EQ(index.matches({"", "h.**.w"}), std::vector<int>());
  EXPECT_EQ(index.matches({"", "h.1.w"}), std::vector<int>({0}));
  EXPECT_EQ(index.matches({"", "h.*.b"}), std::vector<int>({2})); // a name, not a pattern
  EXPECT_EQ(index.matches({"", ""}), std::vector<int>());
  EXPECT_EQ(index.openParts({"", "h.*.w"}), 1);
  EXPECT_EQ(index.openParts({"", "h.*.b"}), 0);
}

/// Random decisions of names with numbers, stars and two functions: the lines say exactly what was decided, and are never
/// more than without patterns.
TEST(NamePatterns, linesSayWhatWasDecided) {
  std::mt19937 random(7);
  auto draw = [&](int n) { return (int)(random() % n); };
  size_t grouped = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<NamedDecision> decisions;
    std::vector<OpKey> keys;
    std::set<std::string> names;
    int layers = 1 + draw(6), experts = 1 + draw(3), choices = 1 + draw(4), noise = 1 + draw(12);
    bool functions = draw(2);
    for (const char *form : {"/h.$/fc/MatMul:0", "/h.$/moe/experts.&/w:0.grad.1", "h.$.bias", "h.$.1.*", "h.*.bias"}) {
      int usual = draw(choices);
      std::set<std::string> mine;
      for (int layer = 0; layer < layers; ++layer)
        for (int expert = 0; expert < experts; ++expert)
          for (const char *function : {"train", "evaluate"}) {
            std::string name = form;
            for (auto [mark, number] : {std::pair('$', layer), std::pair('&', expert)})
              if (size_t at = name.find(mark); at != std::string::npos)
                name.replace(at, 1, std::to_string(number));
            OpKey key{functions ? function : "", name};
            if (!mine.insert(key.text()).second || draw(10) == 0)
              continue;
            int decision = draw(noise) ? usual : draw(choices);
            decisions.push_back({key, decision, draw(4) > 0 && decision > 0});
            keys.push_back(key);
            names.insert(name);
          }
    }
    auto lines = groupDecisions(decisions);
    NameIndex index(keys);
    size_t needed = 0;
    for (const NamedDecision &entry : decisions) {
      needed += entry.needed;
      const std::pair<OpKey, int> *best = nullptr;
      for (const auto &line : lines) {
        if (!refersTo(line.first, entry.key, names))
          continue;
        int open = openParts(line.first, names), least = best ? openParts(best->first, names) : 100;
        ASSERT_NE(open, least) << entry.key.node << ": " << line.first.node << " and " << best->first.node;
        if (open < least)
          best = &line;
      }
      EXPECT_EQ(best ? best->second : entry.decision, entry.decision) << entry.key.node;
      EXPECT_TRUE(best || !entry.needed) << entry.key.node;
    }
    for (const auto &[line, decision] : lines) {
      std::vector<int> expected;
      for (int i = 0; i < (int)keys.size(); ++i)
        if (refersTo(line, keys[i], names))
          expected.push_back(i);
      EXPECT_EQ(index.matches(line), expected) << line.node;
    }
    EXPECT_LE(lines.size(), needed);
    grouped += needed - lines.size();
  }
  EXPECT_GT(grouped, 1000u);
}
