#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/OnnxExport.h"
#include "runtime/checkpoint/Weights.h"
#include "runtime/core/Hash.h"
#include "runtime/core/Json.h"
#include "test/runtime/FakeProgram.h"
#include "test/runtime/Util.h"

#include <cstring>
#include <sys/mount.h>

using namespace divisi::runtime;
using namespace divisi::test;

namespace {
class CheckpointTest : public testing::Test {
protected:
  CheckpointTest() : manifest(*parseManifest(fakeProgram())), arena(*Arena::create(fakeArenaBytes)) {}
  /// Different numbers in all of the state.
  void fill(unsigned seed) {
    std::mt19937 random(seed);
    for (const State &s : manifest.state)
      for (int64_t i = 0; i < s.bytes; ++i)
        arena.at(s)[i] = static_cast<char>(random());
  }
  std::string stateBytes() const {
    std::string bytes;
    for (const State &s : manifest.state)
      bytes.append(arena.at(s), static_cast<size_t>(s.bytes));
    return bytes;
  }
  CheckpointFolder open() { return *CheckpointFolder::open(folder / "ck"); }
  Status save(int64_t step) {
    return open().save(manifest, arena, {step, {step / 10, step % 10}, ~uint64_t(5), true, 99});
  }
  Result<TrainingPoint> restore() {
    return open().restore(manifest, arena, name, [&](const std::string &line) { warnings.push_back(line); });
  }
  std::vector<std::string> names() {
    std::vector<std::string> all;
    for (const auto &entry : std::filesystem::directory_iterator(folder / "ck"))
      all.push_back(entry.path().filename().string());
    std::sort(all.begin(), all.end());
    return all;
  }

  TemporaryFolder folder;
  Manifest manifest;
  Arena arena;
  std::string name;
  std::vector<std::string> warnings;
};

TEST_F(CheckpointTest, RestoresEverything) {
  fill(1);
  std::string before = stateBytes();
  ASSERT_TRUE(succeeded(save(57)));
  fill(2);
  Result<TrainingPoint> point = restore();
  ASSERT_TRUE(succeeded(point));
  EXPECT_EQ(stateBytes(), before);
  EXPECT_EQ(name, "step-57");
  EXPECT_EQ(point->step, 57);
  EXPECT_EQ(point->cursor.epoch, 5);
  EXPECT_EQ(point->cursor.batch, 7);
  EXPECT_EQ(point->seed, ~uint64_t(5));
  EXPECT_EQ(point->samples, 99);
  EXPECT_TRUE(point->shuffle);
  EXPECT_EQ(readFile(folder / "ck/latest"), "step-57\n");
}

TEST_F(CheckpointTest, KeepsTheLastTwo) {
  for (int64_t step : {8, 9, 10, 11})
    ASSERT_TRUE(succeeded(save(step)));
  EXPECT_EQ(names(), (std::vector<std::string>{"latest", "step-10", "step-11"}));
  // The same step again.
  fill(4);
  ASSERT_TRUE(succeeded(save(11)));
  std::string before = stateBytes();
  fill(5);
  ASSERT_TRUE(succeeded(restore()));
  EXPECT_EQ(stateBytes(), before);
  EXPECT_EQ(names(), (std::vector<std::string>{"latest", "step-10", "step-11"}));
}

/// What programs leave that were killed at the worst moments.
TEST_F(CheckpointTest, PassesOverUnfinishedOnes) {
  fill(1);
  std::string before = stateBytes();
  ASSERT_TRUE(succeeded(save(10)));
  std::filesystem::create_directory(folder / "ck/.step-20.tmp-1");
  writeBytes(folder / "ck/.step-20.tmp-1/state.safetensors", "half of it");
  std::filesystem::create_directory(folder / "ck/step-30"); // nothing in it
  std::filesystem::create_directory(folder / "ck/step-40");
  std::filesystem::copy_file(folder / "ck/step-10/state.safetensors", folder / "ck/step-40/state.safetensors");
  std::filesystem::create_directory(folder / "ck/step-x");
  fill(2);
  ASSERT_TRUE(succeeded(restore()));
  EXPECT_EQ(name, "step-10");
  EXPECT_EQ(stateBytes(), before);
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_NE(warnings[0].find("passing over checkpoint step-40"), std::string::npos);
  // The next one clears up.
  ASSERT_TRUE(succeeded(save(50)));
  EXPECT_FALSE(std::filesystem::exists(folder / "ck/.step-20.tmp-1"));
}

/// Flipping any bit of a checkpoint means that the one before it is used, and that nothing of it gets into the state.
TEST_F(CheckpointTest, EveryDamageIsFound) {
  fill(1);
  std::string before = stateBytes();
  ASSERT_TRUE(succeeded(save(10)));
  fill(2);
  ASSERT_TRUE(succeeded(save(20)));
  std::mt19937 random(3);
  std::string file = folder / "ck/step-20/state.safetensors", good = readFile(file);
  for (int i = 0; i < 400; ++i) {
    std::string bad = good;
    if (i % 4 == 0)
      bad.resize(random() % bad.size());
    else
      bad[random() % bad.size()] ^= static_cast<char>(1 << random() % 8);
    writeBytes(file, bad);
    fill(9);
    ASSERT_TRUE(succeeded(restore()));
    ASSERT_EQ(name, "step-10");
    ASSERT_EQ(stateBytes(), before);
  }
  writeBytes(file, good);
  std::string json = folder / "ck/step-20/manifest.json", text = readFile(json);
  for (int i = 0; i < 400; ++i) {
    std::string bad = text;
    bad[random() % bad.size()] ^= static_cast<char>(1 << random() % 8);
    writeBytes(json, bad);
    Result<TrainingPoint> point = restore(); // whatever it says: no crash
    bool sound = !point.ok() || (point->step >= 0 && point->cursor.batch >= 0 && point->cursor.epoch >= 0);
    ASSERT_TRUE(sound) << bad;
  }
  writeBytes(file, "");
  writeBytes(folder / "ck/step-10/state.safetensors", "");
  EXPECT_TRUE(failsWith(restore(), "no usable checkpoint in '" + (folder / "ck")));
}

TEST_F(CheckpointTest, RefusesOtherModels) {
  ASSERT_TRUE(succeeded(save(10)));
  manifest.state[0].shape = {3, 1};
  EXPECT_TRUE(failsWith(restore(), "has 'w' as F32 [3], but the model needs F32 [3, 1]"));
  manifest = *parseManifest(fakeProgram());
  manifest.state[0].name = "v";
  EXPECT_TRUE(failsWith(restore(), "lacks 1 of the model's tensors, 'v' first"));
  manifest = *parseManifest(fakeProgram());
  manifest.state.pop_back();
  EXPECT_TRUE(failsWith(restore(), "another model or optimizer"));
  manifest = *parseManifest(fakeProgram());
  manifest.batch = 5;
  EXPECT_TRUE(failsWith(restore(), "a batch of 4"));
}

/// On a file system of one page there is no room for a second checkpoint; the first must stay whole.
TEST_F(CheckpointTest, AFullDiskDamagesNothing) {
  std::filesystem::create_directory(folder / "ck");
  if (mount("tmpfs", (folder / "ck").c_str(), "tmpfs", 0, "size=16k") != 0)
    GTEST_SKIP() << "needs the right to mount";
  fill(1);
  std::string before = stateBytes();
  EXPECT_TRUE(succeeded(save(1)));
  fill(2);
  Status status;
  for (int64_t step = 2; step < 4 && status.ok(); ++step)
    status = save(step);
  EXPECT_TRUE(failsWith(status, "No space left on device"));
  EXPECT_NE(status.message().find("cannot write '" + (folder / "ck")), std::string::npos);
  EXPECT_TRUE(succeeded(restore()));
  EXPECT_TRUE(warnings.empty());
  for (const std::string &entry : names())
    EXPECT_FALSE(entry.starts_with(".step")) << entry;
  umount((folder / "ck").c_str());
}

TEST_F(CheckpointTest, AFolderIsNeeded) {
  writeBytes(folder / "ck", "");
  EXPECT_TRUE(failsWith(CheckpointFolder::open(folder / "ck"), "cannot make the folder '" + (folder / "ck")));
}

TEST_F(CheckpointTest, WeightsGoOutAndIn) {
  fill(3);
  std::string path = folder / "w.safetensors", before = stateBytes();
  ASSERT_TRUE(succeeded(saveWeights(manifest, arena, path)));
  Result<SafetensorsFile> file = SafetensorsFile::open(path);
  ASSERT_TRUE(succeeded(file));
  EXPECT_EQ(file->entries().size(), 3u); // w, bias, mean
  auto weight = [](const State &s) { return s.isWeight(); };
  std::string moments = before.substr(16, 16), hash = fnv1a64(file->contents().data(), file->contents().size());
  fill(4);
  EXPECT_TRUE(
      failsWith(loadWeights(manifest, arena, path, "fnv1a64:0000000000000000", weight), "contents have changed"));
  ASSERT_TRUE(succeeded(loadWeights(manifest, arena, path, hash, weight)));
  EXPECT_EQ(stateBytes().substr(0, 16), before.substr(0, 16));
  EXPECT_NE(stateBytes().substr(16, 16), moments);
  manifest.state[0].dtype = DataType::F16;
  EXPECT_TRUE(
      failsWith(loadWeights(manifest, arena, path, "", weight), "has 'w' as F32 [3], but the model needs F16 [3]"));
}

TEST_F(CheckpointTest, InitialValuesFollowTheirKind) {
  manifest.state.resize(1);
  State &s = manifest.state[0];
  s.shape = {100000}, s.bytes = 400000, s.offset = 0;
  Arena large = *Arena::create(400000);
  auto moments = [&](Initial::Kind kind, double value, uint64_t seed) {
    s.init = Initial{kind, value};
    initialize(manifest, large, seed);
    double sum = 0, squares = 0, most = 0;
    for (int64_t i = 0; i < s.elements(); ++i) {
      double x = readNumber(large.at(s) + 4 * i, DataType::F32);
      sum += x, squares += x * x, most = std::max(most, std::fabs(x));
    }
    return std::array{sum / 1e5, std::sqrt(squares / 1e5), most};
  };
  auto uniform = moments(Initial::Kind::Uniform, 0.5, 1);
  EXPECT_NEAR(uniform[0], 0, 0.004);
  EXPECT_NEAR(uniform[1], 0.5 / std::sqrt(3.0), 0.002);
  EXPECT_LE(uniform[2], 0.5);
  EXPECT_GT(uniform[2], 0.4999);
  auto normal = moments(Initial::Kind::Normal, 0.02, 1);
  EXPECT_NEAR(normal[0], 0, 0.0003);
  EXPECT_NEAR(normal[1], 0.02, 0.0002);
  EXPECT_GT(normal[2], 0.07);
  EXPECT_EQ(moments(Initial::Kind::Normal, 0.02, 1), normal);
  EXPECT_NE(moments(Initial::Kind::Normal, 0.02, 2), normal);
  EXPECT_EQ(moments(Initial::Kind::Constant, 2, 1), (std::array{2.0, 2.0, 2.0}));
}

/// Reads one field of a protocol buffer: its number, and its integer or its bytes.
struct Wire {
  std::string_view rest;
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      auto byte = static_cast<unsigned char>(rest.at(0));
      rest.remove_prefix(1);
      value |= uint64_t(byte & 127) << shift;
      if (byte < 128)
        return value;
    }
  }
  std::pair<uint64_t, std::string> next() {
    uint64_t key = varint(), value = varint();
    if (key % 8 == 0)
      return {key / 8, std::to_string(value)};
    std::string bytes(rest.substr(0, value));
    EXPECT_EQ(bytes.size(), value);
    rest.remove_prefix(value);
    return {key / 8, bytes};
  }
};

TEST_F(CheckpointTest, OnnxHoldsTheInitializers) {
  fill(6);
  std::string path = folder / "m.onnx", skeleton(fakeSkeleton, fakeSkeletonBytes);
  ASSERT_TRUE(succeeded(exportOnnx(manifest, arena, skeleton, path)));
  std::string text = readFile(path);
  ASSERT_TRUE(text.starts_with(skeleton));
  Wire model{std::string_view(text).substr(skeleton.size())};
  auto [field, graph] = model.next();
  EXPECT_EQ(field, 7u);
  EXPECT_TRUE(model.rest.empty());
  Wire tensors{graph};
  std::vector<std::string> found;
  for (size_t i : {0, 1, 4}) { // w, bias, mean
    auto [number, tensor] = tensors.next();
    EXPECT_EQ(number, 5u);
    const State &s = manifest.state[i];
    std::multimap<uint64_t, std::string> fields;
    for (Wire w{tensor}; !w.rest.empty();)
      fields.insert(w.next());
    EXPECT_EQ(fields.count(1), s.shape.size());
    if (!s.shape.empty()) {
      EXPECT_EQ(fields.find(1)->second, std::to_string(s.shape[0]));
    }
    EXPECT_EQ(fields.find(2)->second, "1");
    EXPECT_EQ(fields.find(8)->second, s.name == "bias" ? "model.bias" : s.name);
    EXPECT_EQ(fields.find(9)->second, std::string(arena.at(s), static_cast<size_t>(s.bytes)));
  }
  EXPECT_TRUE(tensors.rest.empty());
  manifest.state[0].bytes = int64_t(1) << 31;
  EXPECT_TRUE(failsWith(exportOnnx(manifest, arena, skeleton, path), "--save-weights"));
  EXPECT_EQ(readFile(path), text);
}
} // namespace
