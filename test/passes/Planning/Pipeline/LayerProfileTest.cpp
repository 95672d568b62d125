// Reading and writing profiles, and the errors for texts that are no profiles.
#include "Networks.h"
#include "passes/Planning/Pipeline/PipeDream.h"
#include "test/passes/Planning/Unwrap.h"

#include <gtest/gtest.h>

using namespace divisi::planning;
using namespace divisi::planning::test;
using divisi::test::unwrap;

namespace {

std::string layer(const std::string &name, const std::string &more = "") {
  return R"({"name": ")" + name +
         R"(", "forward_ms": 1.5, "backward_ms": 3, "activation_bytes": 4096, "parameter_bytes": 1e6)" + more + "}";
}

std::string file(const std::string &layers) { return R"({"layers": [)" + layers + "]}"; }

std::optional<LayerProfile> parse(const std::string &text, std::string &error) {
  auto profile = unwrap(parseLayerProfile(text, "p.json"), error);
  EXPECT_EQ(profile.has_value(), error.empty()) << error;
  EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  return profile;
}

std::string errorOf(const std::string &text) {
  std::string error;
  EXPECT_FALSE(parse(text, error)) << text.substr(0, 200);
  return error;
}

TEST(LayerProfile, InputsAndOrder) {
  std::string error;
  auto profile = parse(file(layer("a") + "," + layer("b") + "," + layer("c", R"(, "inputs": [])")), error);
  ASSERT_TRUE(profile);
  ASSERT_EQ(profile->layers.size(), 3u);
  EXPECT_EQ(profile->layers[0].inputs, std::vector<int>{});
  EXPECT_EQ(profile->layers[1].inputs, std::vector<int>{0});
  EXPECT_EQ(profile->layers[2].inputs, std::vector<int>{});
  EXPECT_EQ(profile->layers[0].forwardMs, 1.5);
  EXPECT_EQ(profile->layers[0].backwardMs, 3);
  EXPECT_EQ(profile->layers[0].activationBytes, 4096);
  EXPECT_EQ(profile->layers[0].parameterBytes, 1e6);

  // Consumers before their inputs, an input named twice.
  profile = parse(file(layer("d", R"(, "inputs": ["c", "b", "c"])") + "," + layer("b", R"(, "inputs": ["a"])") + "," +
                       layer("c", R"(, "inputs": ["a"])") + "," + layer("a", R"(, "inputs": [])")),
                  error);
  ASSERT_TRUE(profile);
  std::string names;
  for (const LayerProfile::Layer &layer : profile->layers)
    names += layer.name;
  EXPECT_EQ(names, "abcd");
  EXPECT_EQ(profile->layers[3].inputs, (std::vector<int>{1, 2}));
}

TEST(LayerProfile, WritesWhatItReads) {
  LayerProfile profile = inception(5e12, 32, 60);
  profile.layers[3].name = "quo\"te\\ \n \xc3\xa9";
  profile.layers[4].forwardMs = 0.1;
  profile.layers[5].activationBytes = 1e18;
  std::string text, error;
  {
    llvm::raw_string_ostream os(text);
    writeLayerProfile(profile, os);
  }
  EXPECT_NE(text.find("\"forward_ms\": 0.1,"), std::string::npos);
  auto read = parse(text, error);
  ASSERT_TRUE(read) << error;
  ASSERT_EQ(read->layers.size(), profile.layers.size());
  for (size_t i = 0; i < profile.layers.size(); ++i) {
    const LayerProfile::Layer &a = profile.layers[i], &b = read->layers[i];
    EXPECT_EQ(a.name, b.name);
    EXPECT_EQ(a.forwardMs, b.forwardMs);
    EXPECT_EQ(a.backwardMs, b.backwardMs);
    EXPECT_EQ(a.activationBytes, b.activationBytes);
    EXPECT_EQ(a.parameterBytes, b.parameterBytes);
    EXPECT_EQ(a.inputs, b.inputs);
  }
}

TEST(LayerProfile, Errors) {
  auto with = [](const std::string &from, const std::string &to) {
    std::string text = file(layer("a") + "," + layer("b"));
    size_t at = text.rfind(from);
    return text.replace(at, from.size(), to);
  };
  const std::string ms = "expected a number of milliseconds from 0 to 1e12";
  const std::string bytes = "expected a number of bytes from 0 to 1e18";
  const std::string layers = "p.json: layers: expected an array of 1 to 100000 layers";
  const std::string keys =
      "unknown key, expected one of name, forward_ms, backward_ms, activation_bytes, parameter_bytes, inputs";
  struct Case {
    std::string text, error;
  };
  const Case cases[] = {
      {"[]", "p.json: expected an object with the key layers"},
      {"3", "p.json: expected an object with the key layers"},
      {"{}", layers},
      {R"({"layers": {}})", layers},
      {R"({"layers": []})", layers},
      {R"({"layers": [], "zz": 1, "aa\n": 1})", "p.json: aa?: unknown key, expected layers"},
      {file("1"), "p.json: layer 0: expected an object"},
      {file("{}"), "p.json: layer 0: name: expected text that is not empty"},
      {file(layer("")), "p.json: layer 0: name: expected text that is not empty"},
      {file(layer("a") + "," + layer("a")), "p.json: layer 1 ('a'): name: layer 0 has the same"},
      {with("forward_ms", "forward"), "p.json: layer 1 ('b'): forward: " + keys},
      {with("1.5", "\"1\""), "p.json: layer 1 ('b'): forward_ms: " + ms},
      {with("1.5", "-1"), "p.json: layer 1 ('b'): forward_ms: " + ms},
      {with("1.5", "1e13"), "p.json: layer 1 ('b'): forward_ms: " + ms},
      {with("1.5", "1e999"), "p.json: layer 1 ('b'): forward_ms: " + ms},
      {with("1.5", "-1e999"), "p.json: layer 1 ('b'): forward_ms: " + ms},
      {with("\"backward_ms\": 3, ", ""), "p.json: layer 1 ('b'): backward_ms: " + ms},
      {with("4096", "null"), "p.json: layer 1 ('b'): activation_bytes: " + bytes},
      {with("1e6", "1e19"), "p.json: layer 1 ('b'): parameter_bytes: " + bytes},
      {file(layer("a", R"(, "inputs": 1)")), "p.json: layer 0 ('a'): inputs: expected an array of names"},
      {file(layer("a", R"(, "inputs": [1])")), "p.json: layer 0 ('a'): inputs: expected an array of names"},
      {file(layer("a", R"(, "inputs": ["x\ty"])")), "p.json: layer 0 ('a'): inputs: no layer is named 'x?y'"},
      {file(layer("a", R"(, "inputs": ["a"])")), "p.json: layer 0 ('a'): inputs: a layer cannot be its own input"},
      {file(layer("s") + "," + layer("after", R"(, "inputs": ["y"])") + "," + layer("x", R"(, "inputs": ["y", "s"])") +
            "," + layer("y", R"(, "inputs": ["x"])")),
       "p.json: layer 3 ('y'): inputs: go round in a cycle"},
  };
  for (const Case &c : cases)
    EXPECT_EQ(errorOf(c.text), c.error) << c.text;
  for (const char *number : {"NaN", "nan", "Infinity", "-"})
    EXPECT_EQ(errorOf(with("1.5", number)).substr(0, 18), "p.json: not JSON: ") << number;
  for (const char *text : {"", "{", "\xff\xfe", "{\"layers\": [\"\xc3\"]}"})
    EXPECT_EQ(errorOf(text).substr(0, 18), "p.json: not JSON: ") << text;
}

TEST(LayerProfile, Hostile) {
  std::string deep(1000000, '[');
  EXPECT_EQ(errorOf(deep), "p.json: nested too deep for a profile");
  for (size_t i = 0; i < deep.size(); i += 5)
    deep.replace(i, 5, "{\"a\":");
  EXPECT_EQ(errorOf(deep), "p.json: nested too deep for a profile");
  std::string name(1000000, '['); // brackets in a string are not nesting
  EXPECT_EQ(errorOf(file(layer("\\\"" + name) + "," + layer("b", ", \"inputs\": [\"" + name + "\"]"))),
            "p.json: layer 1 ('b'): inputs: no layer is named '" + std::string(64, '[') + "...'");

  std::string many = layer("0");
  for (size_t i = 1; i < LayerProfile::mostLayers; ++i)
    many += "," + layer(std::to_string(i));
  std::string error;
  auto profile = parse(file(many), error);
  ASSERT_TRUE(profile) << error;
  EXPECT_EQ(profile->layers.size(), LayerProfile::mostLayers);
  EXPECT_EQ(errorOf(file(many + "," + layer("more"))), "p.json: layers: expected an array of 1 to 100000 layers");

  EXPECT_FALSE(unwrap(readLayerProfile("/"), error));
  EXPECT_EQ(error, "/: cannot be read");
  EXPECT_FALSE(unwrap(readLayerProfile("no/such.json"), error));
  EXPECT_EQ(error, "no/such.json: cannot be read");
}

/// Changed bytes, truncations and copies: each gives an error of one line, or a profile that can be planned.
TEST(LayerProfile, Fuzz) {
  std::string original;
  {
    llvm::raw_string_ostream os(original);
    writeLayerProfile(inception(5e12, 32, 30), os);
  }
  const std::string pieces[] = {"[",
                                "]",
                                "{",
                                "}",
                                "\"",
                                ",",
                                ":",
                                "-",
                                "1e999",
                                "null",
                                "\"inputs\": [\"fc\"]",
                                "\\u0000",
                                "\xff",
                                "0",
                                "e",
                                "\"name\": \"stem\""};
  int read = 0;
  for (int seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::string text = original;
    for (int i = 0, count = 1 + random.below(4); i < count; ++i) {
      size_t at = random.below(static_cast<int>(text.size()));
      switch (random.below(5)) {
      case 0:
        text[at] = static_cast<char>(random.below(256));
        break;
      case 1:
        text.erase(at, 1 + random.below(20));
        break;
      case 2:
        text.insert(at, pieces[random.below(std::size(pieces))]);
        break;
      case 3:
        text.insert(at, text.substr(random.below(static_cast<int>(text.size())), random.below(200)));
        break;
      case 4:
        if (size_t digit = text.find_first_of("0123456789", at); digit != std::string::npos)
          text[digit] = static_cast<char>('0' + random.below(10));
        break;
      }
    }
    std::string error;
    auto profile = parse(text, error);
    if (!profile)
      continue;
    ++read;
    EXPECT_GE(planPipeDream(*profile, PipeLevel{4, 1e9}).speedup, 1);
  }
  EXPECT_GT(read, 100);
}

} // namespace
