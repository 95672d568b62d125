#include "passes/Planning/Cost/Cluster.h"
#include "test/passes/Planning/Unwrap.h"

#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>

using namespace divisi::planning;
using divisi::test::unwrap;

namespace {

const std::string header = "[cluster]\nname = \"c\"\n";
const std::string device = "[device]\nkind = \"cpu\"\nname = \"d\"\nmemory = 1e9\nflops.fp32 = 1e9\nbandwidth = 1e9\n"
                           "launch = 1e-6\n";
const std::string level = "[[level]]\nname = \"l\"\nsize = 4\nbandwidth = 1e9\nlatency = 1e-6\n";

std::optional<Cluster> parse(const std::string &text, std::string &error) {
  auto cluster = unwrap(parseClusterFile(text, "c.toml"), error);
  EXPECT_EQ(cluster.has_value(), error.empty()) << error;
  return cluster;
}

std::string errorOf(const std::string &text) {
  std::string error;
  EXPECT_FALSE(parse(text, error)) << text;
  return error;
}

std::string exampleText() {
  std::stringstream text;
  text << std::ifstream(CLUSTER_EXAMPLE).rdbuf();
  return text.str();
}

TEST(ClusterFile, Example) {
  std::string error;
  auto cluster = unwrap(parseCluster(CLUSTER_EXAMPLE, thisMachine()), error);
  ASSERT_TRUE(cluster) << error;
  EXPECT_EQ(cluster->invalid(), "");
  EXPECT_EQ(cluster->name, "two-nodes");
  EXPECT_EQ(cluster->devices(), 16);
  Cluster::Device expected = *gpuPreset("a100");
  expected.memory = 76e9;
  expected.flops[Cluster::Device::tf32] = 140e12;
  expected.computeEfficiency.fill(0.65);
  EXPECT_EQ(cluster->device, expected);
  std::vector<Cluster::Level> levels = {{"nvlink", 8, 240e9, 2e-6}, {"infiniband", 2, 100e9, 5e-6}};
  EXPECT_EQ(cluster->levels, levels);
}

TEST(ClusterFile, WithoutPreset) {
  std::string error;
  auto cluster = parse(header + device + "flops.bf16 = \"4GFLOPS\"\n" + level, error);
  ASSERT_TRUE(cluster) << error;
  EXPECT_EQ(cluster->device.kind, "cpu");
  EXPECT_EQ(cluster->device.flops, (std::array<double, 4>{1e9, 1e9, 4e9, 1e9}));
  EXPECT_EQ(cluster->devices(), 4);
  EXPECT_EQ(parse(header + device, error)->devices(), 1);
}

TEST(ClusterFile, Errors) {
  struct Case {
    std::string text;
    const char *error;
  };
  auto preset = [](const std::string &line) { return header + "[device]\npreset = \"h100\"\n" + line + "\n"; };
  const Case cases[] = {
      {"", "c.toml:1: cluster: expected a table [cluster]"},
      {"\n[device]\n", "c.toml:1: cluster: expected a table [cluster]"},
      {"cluster = 3\n", "c.toml:1: cluster: expected a table [cluster]"},
      {header, "c.toml:1: device: expected a table [device]"},
      {"[cluster]\n", "c.toml:1: cluster.name: expected text of 1 to 64 letters, digits and signs"},
      {"[cluster]\nname = \"a\\nb\"\n", "c.toml:2: cluster.name: expected text of 1 to 64 letters, digits and signs"},
      {"[cluster]\nnam = 1\n", "c.toml:2: cluster.nam: unknown key, expected one of name"},
      {"[cluster]\n\"a\\nb\" = 1\n", "c.toml:2: cluster.a?b: unknown key, expected one of name"},
      {"[clustr]\n", "c.toml:1: clustr: unknown key, expected one of cluster, device, level"},
      {header + "[device]\n", "c.toml:3: device.kind: expected text of 1 to 64 letters, digits and signs"},
      {header + "[device]\nkind = \"tpu\"\n", "c.toml:4: device.kind: expected \"cpu\" or \"cuda\""},
      {header + "[device]\npreset = \"p100\"\n",
       "c.toml:4: device.preset: expected one of v100, a100, a100-40gb, h100, h200, b200, gb200, l40s, rtx4090, mi300x"},
      {header + "[device]\npreset = 4\n",
       "c.toml:4: device.preset: expected text of 1 to 64 letters, digits and signs"},
      {preset("memory = nan"),
       "c.toml:5: device.memory: expected a number of bytes from 1 to 1e18, or text such as \"80GB\""},
      {preset("memory = -1"),
       "c.toml:5: device.memory: expected a number of bytes from 1 to 1e18, or text such as \"80GB\""},
      {preset("memory = true"),
       "c.toml:5: device.memory: expected a number of bytes from 1 to 1e18, or text such as \"80GB\""},
      {preset("memory = [1]"),
       "c.toml:5: device.memory: expected a number of bytes from 1 to 1e18, or text such as \"80GB\""},
      {preset("bandwidth = inf"),
       "c.toml:5: device.bandwidth: expected a number of bytes/s from 1 to 1e18, or text such "
       "as \"900GB/s\" or \"25Gb/s\""},
      {preset("launch = \"5 GB\""),
       "c.toml:5: device.launch: expected a number of seconds from 1e-12 to 1000, or text such as \"5us\""},
      {preset("compute-efficiency = 70"), "c.toml:5: device.compute-efficiency: expected a number from 0.000001 to 1"},
      {preset("memory-efficiency = \"0.7\""),
       "c.toml:5: device.memory-efficiency: expected a number from 0.000001 to 1"},
      {preset("flops = 3"), "c.toml:5: device.flops: expected a table such as { fp32 = \"60TFLOPS\" }"},
      {preset("flops = { fp8 = 1 }"),
       "c.toml:5: device.flops.fp8: unknown key, expected one of fp32, tf32, bf16, fp16"},
      {preset("flops = { bf16 = 1e300 }"),
       "c.toml:5: device.flops.bf16: expected a number of flop/s from 1 to 1e21, or "
       "text such as \"989TFLOPS\""},
      {header +
           "[device]\nkind = \"cpu\"\nname = \"d\"\nmemory = 1e9\nflops.bf16 = 1e9\nbandwidth = 1e9\nlaunch = 1e-6\n",
       "c.toml:7: device.flops.fp32: expected a number of flop/s from 1 to 1e21, or text such as \"989TFLOPS\""},
      {header + device + "level = 3\n",
       "c.toml:10: device.level: unknown key, expected one of preset, kind, name, memory, flops, bandwidth, "
       "compute-efficiency, memory-efficiency, launch"},
      {"level = 3\n" + header + device, "c.toml:1: level: expected one to 6 tables [[level]]"},
      {"level = [3]\n" + header + device, "c.toml:1: level: expected tables [[level]]"},
      {header + device + "[level]\n", "c.toml:10: level: expected one to 6 tables [[level]]"},
      {header + device + level + "speed = 3\n",
       "c.toml:15: level.speed: unknown key, expected one of name, size, bandwidth, latency"},
      {header + device + "[[level]]\nname = \"l\"\n", "c.toml:10: level.size: expected a whole number from 1 to 65536"},
      {header + device + "[[level]]\nname = \"l\"\nsize = 2.5\n",
       "c.toml:12: level.size: expected a whole number from 1 to 65536"},
      {header + device + level + "[[level]]\nname = \"m\"\nsize = 16385\n",
       "c.toml:17: level.size: expected a whole number from 1 to 16384"},
  };
  // These break assertions of toml++.
  EXPECT_EQ(errorOf(header + device + "[[[level]]]\n" + level), "c.toml:10: not TOML");
  EXPECT_EQ(errorOf("[[="), "c.toml:1: not TOML");
  for (const Case &test : cases)
    EXPECT_EQ(errorOf(test.text), test.error);

  std::string many = header + device;
  for (int i = 0; i < 7; ++i)
    many += level;
  EXPECT_EQ(errorOf(many), "c.toml:10: level: expected one to 6 tables [[level]]");
}

TEST(ClusterFile, HostileText) {
  std::string dots, brackets(60000, '['), braces;
  for (int i = 0; i < 30000; ++i) {
    dots += "a.";
    braces += i < 10000 ? "{a=" : "";
  }
  std::string nul = header + device;
  nul[nul.size() / 2] = '\0';
  for (const std::string &text :
       std::vector<std::string>{dots + "a = 1", "[" + dots + "a]", "x = " + brackets, "x = " + braces, "[cluster",
                                "[cluster]\nname = \"\xff\xfe\"", header + header, "name = 99999999999999999999",
                                std::string(1 << 17, '#'), nul, "\xef\xbb\xbf", std::string("\r")}) {
    std::string error = errorOf(text);
    EXPECT_EQ(error.find("c.toml:"), 0u) << error;
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
    EXPECT_LT(error.size(), 200u) << error;
  }
}

TEST(ClusterFile, NoLetterIsSpace) { // (the sanitized build sees what toml++ takes for granted about them)
  for (unsigned c = 0xa1; c < 0x10000; ++c) {
    std::string letter =
        c < 0x800 ? std::string{(char)(0xc0 | c >> 6), (char)(0x80 | (c & 63))}
                  : std::string{(char)(0xe0 | c >> 12), (char)(0x80 | (c >> 6 & 63)), (char)(0x80 | (c & 63))};
    EXPECT_EQ(errorOf("[[" + letter).find("c.toml:1: "), 0u) << c;
  }
}

TEST(ClusterFile, UnreadablePaths) {
  for (const char *path : {"/", "/dev/zero", "/no/such.toml", ""}) {
    std::string error;
    EXPECT_FALSE(unwrap(readClusterFile(path), error));
    EXPECT_EQ(error, std::string(path) + ": cannot be read");
  }
}

TEST(ClusterFile, MutatedExample) {
  const std::string example = exampleText();
  ASSERT_FALSE(example.empty());
  for (unsigned seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(seed);
    auto below = [&](size_t n) { return random() % n; };
    std::string text = example;
    for (size_t left = 1 + below(4); left > 0; --left)
      switch (below(4)) {
      case 0:
        text[below(text.size())] = (char)below(256);
        break;
      case 1:
        text[below(text.size())] ^= (char)(1 << below(8));
        break;
      case 2:
        text.erase(below(text.size()), 1 + below(20));
        break;
      case 3: {
        std::string piece = text.substr(below(text.size()), below(40));
        text.insert(below(text.size()), piece);
        break;
      }
      }
    if (below(4) == 0)
      text.resize(below(text.size()));
    std::string error;
    auto cluster = parse(text, error);
    if (cluster) {
      EXPECT_EQ(cluster->invalid(), "") << "seed " << seed;
      continue;
    }
    EXPECT_EQ(error.find("c.toml:"), 0u) << "seed " << seed << ": " << error;
    EXPECT_TRUE(error.size() > 7 && isdigit(error[7])) << "seed " << seed << ": " << error;
    for (char c : error)
      EXPECT_TRUE(c >= ' ' && c <= '~') << "seed " << seed << ": " << error;
  }
}

} // namespace
