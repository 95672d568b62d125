// PipeDream's graph.txt: what is read, what is left out, and the errors for texts that are none.
#include "passes/Planning/Pipeline/GraphText.h"
#include "Networks.h"
#include "test/passes/Planning/Unwrap.h"

#include <gtest/gtest.h>

using namespace divisi::planning;
using namespace divisi::planning::test;
using divisi::test::unwrap;

namespace {

std::string node(const std::string &id, const std::string &description = "Linear") {
  return id + " -- " + description +
         " -- forward_compute_time=1.500, backward_compute_time=3.000, activation_size=4096.000, "
         "parameter_size=8.000\n";
}

std::optional<LayerProfile> parse(const std::string &text, std::string &error) {
  auto profile = unwrap(parseLayerProfile(text, "g.txt"), error);
  EXPECT_EQ(profile.has_value(), error.empty()) << error;
  EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  return profile;
}

std::string errorOf(const std::string &text) {
  std::string error;
  EXPECT_FALSE(parse(text, error)) << text.substr(0, 200);
  return error;
}

TEST(GraphText, NodesAndEdges) {
  std::string error;
  auto profile = parse("\nb -- LSTM(8, 8) -- with a dash -- forward_compute_time=0.25, backward_compute_time=1e1, "
                       "activation_size=[5.0; 2.0; 1.0], parameter_size=3 -- stage_id=2\r\n" +
                           node("a") + "\ta -- b\n\ta -- b\r\n",
                       error);
  ASSERT_TRUE(profile) << error;
  ASSERT_EQ(profile->layers.size(), 2u);
  const LayerProfile::Layer &a = profile->layers[0], &b = profile->layers[1];
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.forwardMs, 1.5);
  EXPECT_EQ(a.backwardMs, 3);
  EXPECT_EQ(a.activationBytes, 4096);
  EXPECT_EQ(a.parameterBytes, 8);
  EXPECT_EQ(b.name, "b");
  EXPECT_EQ(b.forwardMs, 0.25);
  EXPECT_EQ(b.backwardMs, 10);
  EXPECT_EQ(b.activationBytes, 8);
  EXPECT_EQ(b.parameterBytes, 3);
  EXPECT_EQ(b.inputs, std::vector<int>{0});
}

/// Inputs come from the data, not from a stage; of a tuple only what is used counts.
TEST(GraphText, LeavesOutInputsAndUnusedItems) {
  std::string error;
  auto profile = parse(node("x", "Input0") + node("l") + node("i", "__getitem__(0)") + node("j", "__getitem__(1)") +
                           node("h", "InputProjection") + "\tx -- l\n\tl -- i\n\tl -- j\n\ti -- h\n",
                       error);
  ASSERT_TRUE(profile) << error;
  std::string names;
  for (const LayerProfile::Layer &layer : profile->layers)
    names += layer.name;
  EXPECT_EQ(names, "lih");
  EXPECT_EQ(profile->layers[0].inputs, std::vector<int>{});
  EXPECT_EQ(profile->layers[2].inputs, std::vector<int>{1});
  EXPECT_EQ(errorOf(node("x", "Input")), "g.txt:1: expected a node that is neither an input nor an unused __getitem__");
}

TEST(GraphText, Errors) {
  EXPECT_EQ(errorOf("a -- b"), "g.txt:1: expected NODE -- DESCRIPTION -- forward_compute_time=..., "
                               "backward_compute_time=..., activation_size=..., parameter_size=...");
  EXPECT_EQ(errorOf(node("a") + node("a")), "g.txt:2: node 'a' is on line 1, too");
  EXPECT_EQ(errorOf(node("a") + "\ta -- b"), "g.txt:2: no node is named 'b'");
  EXPECT_EQ(errorOf(node("a") + "\ta"), "g.txt:2: no node is named ''");
  EXPECT_EQ(errorOf(node("a") + "\ta -- a"), "g.txt:2: node 'a' cannot be its own input");
  EXPECT_EQ(errorOf(node("c") + node("a") + node("b") + "\ta -- b\n\tb -- a\n\ta -- c"),
            "g.txt:2: the inputs of node 'a' go round in a cycle");
  auto costs = [](const std::string &activation, const std::string &forward = "1", const std::string &rest = "") {
    return errorOf("a -- b -- forward_compute_time=" + forward +
                   ", backward_compute_time=1, activation_size=" + activation + ", parameter_size=1" + rest);
  };
  for (const char *wrong : {"nan", "inf", "-1", "1e30", "", "1 ", "1e13"})
    EXPECT_EQ(costs("1", wrong), "g.txt:1: node 'a': expected forward_compute_time=milliseconds from 0 to 1e12");
  for (const char *wrong : {"nan", "[", "[]", "[1;", "[1; ; 2]", "[9e17; 9e17]", "2e18", "0x1p3"})
    EXPECT_EQ(costs(wrong), "g.txt:1: node 'a': expected activation_size=bytes from 0 to 1e18") << wrong;
  EXPECT_EQ(costs("1", "1", ", more=1"), "g.txt:1: node 'a': expected nothing behind parameter_size");
}

TEST(GraphText, Hostile) {
  std::string many;
  for (size_t i = 0; i <= LayerProfile::mostLayers; ++i)
    many += node(std::to_string(i));
  EXPECT_EQ(errorOf(many), "g.txt:100001: expected at most 100000 nodes");
  EXPECT_EQ(errorOf(node(std::string(1000000, 'a')) + "\tb -- b").substr(0, 9), "g.txt:2: ");
  EXPECT_EQ(errorOf(std::string("a -- \0 -- \xff", 12)).substr(0, 9), "g.txt:1: ");

  std::string original = node("x", "Input");
  for (int i = 0; i < 8; ++i)
    original += node("n" + std::to_string(i));
  for (int i = 0; i < 8; ++i)
    original += "\t" + (i ? "n" + std::to_string(i / 2) : "x") + " -- n" + std::to_string(i ? i : 0) + "\n";
  original.replace(original.find("\tn0 -- n1"), 9, "\tn0 -- n2");
  const std::string pieces[] = {" -- ", "\t", "\n", "[", "; ", "=", ", ", "-", "1e999", "nan", "\xff", "n3"};
  int read = 0;
  for (int seed = 0; seed < 5000; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::string text = original;
    for (int i = 0, count = 1 + random.below(3); i < count; ++i) {
      size_t at = random.below(static_cast<int>(text.size()));
      if (random.below(2))
        text.insert(at, pieces[random.below(std::size(pieces))]);
      else if (random.below(2))
        text.erase(at, 1 + random.below(20));
      else
        text[at] = static_cast<char>('0' + random.below(10));
    }
    std::string error;
    if (auto profile = parse(text, error)) {
      ++read;
      for (size_t layer = 0; layer < profile->layers.size(); ++layer)
        for (int input : profile->layers[layer].inputs)
          ASSERT_LT(input, static_cast<int>(layer));
    }
  }
  EXPECT_GT(read, 100);
}

} // namespace
