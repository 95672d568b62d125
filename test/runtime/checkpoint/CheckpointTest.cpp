#include "runtime/checkpoint/CheckpointReader.h"
#include "runtime/checkpoint/CheckpointSaver.h"
#include "runtime/checkpoint/OnnxExport.h"
#include "runtime/checkpoint/Weights.h"
#include "runtime/core/Hash.h"
#include "runtime/core/Json.h"
#include "test/runtime/checkpoint/SavedState.h"

#include <cstring>
#include <sys/mount.h>

using namespace divisi::runtime;
using namespace divisi::test;

namespace {
class CheckpointTest : public testing::Test, protected SavedState {
protected:
  CheckpointFolder open() { return *CheckpointFolder::open(folder / "ck"); }
  Status save(int64_t step) {
    return saveCheckpoint(open(), manifest, arena,
                          {step, {step / 10, step % 10}, ~uint64_t(5), true, 99, {{"--lr", "0.1"}}, evalLoss});
  }
  Result<TrainingPoint> restore(bool anyway = false) {
    return open().restore(
        manifest, arena, name, [&](const std::string &line) { warnings.push_back(line); }, anyway);
  }
  std::vector<std::string> names() { return namesIn(folder / "ck"); }

  TemporaryFolder folder;
  std::string name;
  std::vector<std::string> warnings;
  std::optional<double> evalLoss;
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
  EXPECT_EQ(point->flags, (std::map<std::string, std::string>{{"--lr", "0.1"}}));
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

TEST_F(CheckpointTest, KeepsTheBest) {
  for (auto [step, loss] : {std::pair(1, 0.5), {2, 0.25}, {3, 0.75}, {4, 0.3}}) {
    evalLoss = loss;
    ASSERT_TRUE(succeeded(save(step)));
  }
  evalLoss.reset();
  ASSERT_TRUE(succeeded(save(5)));
  EXPECT_EQ(names(), (std::vector<std::string>{"best", "latest", "step-2", "step-4", "step-5"}));
  EXPECT_EQ(readFile(folder / "ck/best"), "step-2\n");
  evalLoss = 0.125;
  ASSERT_TRUE(succeeded(saveCheckpoint(*CheckpointFolder::open(folder / "ck", 3), manifest, arena,
                                       {6, {0, 6}, 1, true, 99, {}, evalLoss})));
  EXPECT_EQ(names(), (std::vector<std::string>{"best", "latest", "step-4", "step-5", "step-6"}));
}

/// The state may change as soon as writing has begun.
TEST_F(CheckpointTest, WritesFromACopy) {
  fill(1);
  std::string before = stateBytes();
  CheckpointFolder checkpoints = open();
  CheckpointSaver saver(checkpoints, manifest, arena);
  ASSERT_TRUE(succeeded(saver.begin({10, {1, 0}, 1, true, 99})));
  EXPECT_TRUE(saver.isActive());
  fill(2);
  ASSERT_TRUE(succeeded(saver.finish()));
  EXPECT_FALSE(saver.isActive());
  EXPECT_EQ(saver.saved(), 10);
  ASSERT_TRUE(succeeded(restore()));
  EXPECT_EQ(stateBytes(), before);
}

/// Slices of any kind are assembled from shards of any kind, also for a reshape of the elements. The elements' values
/// are their indices.
TEST_F(CheckpointTest, TensorsAreReadHoweverTheyWereSplit) {
  std::mt19937 random(7);
  auto number = [&](int64_t from, int64_t to) {
    return from + static_cast<int64_t>(random() % static_cast<uint64_t>(to - from + 1));
  };
  for (int trial = 0; trial < 300; ++trial) {
    Shape pieced = {number(1, 9), number(1, 7), number(1, 5)};
    int64_t all = pieced[0] * pieced[1] * pieced[2];
    Shape view = trial % 2 ? Shape{pieced[0] * pieced[1], pieced[2]} : Shape{pieced[0], pieced[1] * pieced[2]};
    CheckpointManifest checkpoint;
    CheckpointTensor tensor{"t", "parameter", DataType::I32, view, pieced, {}};
    std::array<std::vector<int64_t>, 3> cuts; // of each dimension
    for (size_t d = 0; d < 3; ++d) {
      cuts[d] = {0, pieced[d]};
      for (int64_t i = number(0, 2); i > 0; --i)
        cuts[d].push_back(number(0, pieced[d]));
      std::sort(cuts[d].begin(), cuts[d].end());
      cuts[d].erase(std::unique(cuts[d].begin(), cuts[d].end()), cuts[d].end());
    }
    std::filesystem::create_directories(folder / "pieces");
    for (size_t a = 0; a + 1 < cuts[0].size(); ++a)
      for (size_t b = 0; b + 1 < cuts[1].size(); ++b)
        for (size_t c = 0; c + 1 < cuts[2].size(); ++c) {
          Shape start = {cuts[0][a], cuts[1][b], cuts[2][c]};
          Shape shape = {cuts[0][a + 1] - start[0], cuts[1][b + 1] - start[1], cuts[2][c + 1] - start[2]};
          std::vector<int32_t> values;
          for (int64_t i = 0; i < shape[0]; ++i)
            for (int64_t j = 0; j < shape[1]; ++j)
              for (int64_t k = 0; k < shape[2]; ++k)
                values.push_back(
                    static_cast<int32_t>(((start[0] + i) * pieced[1] + start[1] + j) * pieced[2] + start[2] + k));
          std::string file = concat("f", checkpoint.files.size());
          ChunkHasher hasher;
          const char *bytes = reinterpret_cast<const char *>(values.data());
          ASSERT_TRUE(succeeded(writeSafetensors(folder / ("pieces/" + file),
                                                 {{"t", DataType::I32, shape, bytes, values.size() * 4}}, {}, {}, &hasher)));
          tensor.pieces.push_back({checkpoint.files.size(), start, shape});
          checkpoint.files.push_back({file, hasher.bytes(), std::move(hasher).text()});
        }
    checkpoint.tensors.push_back(tensor);
    // A block of the reshaped tensor, as a rank has it: it may extend or be beyond the tensor.
    Slice slice{view, {}, {}};
    for (int64_t size : view) {
      slice.local.push_back(number(1, size + 2));
      slice.start.push_back(slice.local.back() * number(0, (size - 1) / slice.local.back() + 1));
    }
    std::vector<int32_t> got(static_cast<size_t>(slice.elements()), -1);
    Result<CheckpointReader> reader = CheckpointReader::open(folder / "pieces", checkpoint);
    ASSERT_TRUE(succeeded(reader));
    ASSERT_TRUE(succeeded(reader->read(checkpoint.tensors[0], slice, reinterpret_cast<char *>(got.data()))));
    for (int64_t i = 0; i < slice.local[0]; ++i)
      for (int64_t j = 0; j < slice.local[1]; ++j) {
        int64_t row = slice.start[0] + i, column = slice.start[1] + j;
        int64_t want = row < view[0] && column < view[1] ? row * view[1] + column : -1;
        ASSERT_EQ(got[static_cast<size_t>(i * slice.local[1] + j)], want) << trial;
      }
    // A missing shard is detected, and so is a shard that occurs twice instead of another one.
    std::vector<int32_t> whole(static_cast<size_t>(all));
    auto readWhole = [&] {
      return reader->read(checkpoint.tensors[0], {view, view, {0, 0}}, reinterpret_cast<char *>(whole.data()));
    };
    std::vector<CheckpointTensor::Piece> &pieces = checkpoint.tensors[0].pieces;
    for (size_t i = 1; i < pieces.size(); ++i)
      if (pieces[i].shape == pieces[0].shape) {
        Shape moved = std::exchange(pieces[i].start, pieces[0].start);
        EXPECT_TRUE(failsWith(readWhole(), "pieces of 't' are not the whole"));
        pieces[i].start = moved;
      }
    pieces.erase(pieces.begin() + number(0, static_cast<int64_t>(pieces.size()) - 1));
    EXPECT_TRUE(failsWith(readWhole(), "pieces of 't' are not the whole"));
    std::filesystem::remove_all(folder / "pieces");
  }
}

TEST_F(CheckpointTest, ExportsWholeTensors) {
  fill(8);
  ASSERT_TRUE(succeeded(save(10)));
  ASSERT_TRUE(succeeded(saveWeights(manifest, arena, folder / "weights")));
  ASSERT_TRUE(succeeded(exportCheckpoint(folder / "ck/step-10", folder / "exported", false)));
  EXPECT_EQ(readFile(folder / "exported"), readFile(folder / "weights"));
  ASSERT_TRUE(succeeded(exportCheckpoint(folder / "ck/step-10", folder / "exported", true)));
  EXPECT_EQ(SafetensorsFile::open(folder / "exported")->entries().size(), manifest.state.size());
  std::string file = folder / "ck/step-10/state.safetensors", bytes = readFile(file);
  bytes[bytes.size() - 1] ^= 1;
  writeBytes(file, bytes);
  EXPECT_TRUE(
      failsWith(exportCheckpoint(folder / "ck/step-10", folder / "none", true), "state.safetensors' is damaged"));
  EXPECT_FALSE(std::filesystem::exists(folder / "none"));
}

/// A loss that is not finite is not in the manifest, and is never the best.
TEST_F(CheckpointTest, LossesThatAreNoNumbers) {
  fill(1);
  evalLoss = 0.5;
  ASSERT_TRUE(succeeded(save(1)));
  for (double loss : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    evalLoss = loss;
    ASSERT_TRUE(succeeded(save(2)));
    ASSERT_TRUE(succeeded(save(3)));
    ASSERT_TRUE(succeeded(restore()));
    EXPECT_EQ(name, "step-3");
    EXPECT_EQ(readFile(folder / "ck/best"), "step-1\n");
  }
  EXPECT_TRUE(warnings.empty());
}

/// An edited manifest may have a valid hash, so its contents must be checked.
TEST_F(CheckpointTest, ManifestsThatLieAreRefused) {
  fill(1);
  ASSERT_TRUE(succeeded(save(10)));
  std::string file = folder / "ck/step-10/manifest.json", before = readFile(file);
  const std::function<void(Json &)> lies[] = {
      [](Json &json) { json["files"][0]["name"] = "../step-10/state.safetensors"; },
      [](Json &json) { json["files"][0]["name"] = ".."; },
      [](Json &json) { json["files"][0]["name"] = ""; },
      [](Json &json) { json["files"][0]["name"] = "manifest.json"; },
      [](Json &json) { json["files"][0]["bytes"] = -1; },
      [](Json &json) { json["files"][0]["bytes"] = INT64_MAX; },
      [](Json &json) { json["files"][0]["hashes"] = ""; },
      [](Json &json) { json["files"] = Json::array(); },
      [](Json &json) { json["tensors"][0]["pieces"] = Json::array(); },
      [](Json &json) { json["tensors"][0]["pieces"][0]["file"] = -1; },
      [](Json &json) { json["tensors"][0]["pieces"][0]["file"] = 1; },
      [](Json &json) { json["tensors"][0]["pieces"].push_back(json["tensors"][0]["pieces"][0]); },
      [](Json &json) { json["tensors"][0]["pieces"][0]["start"] = {1}; },
      [](Json &json) { json["tensors"].push_back(json["tensors"][0]); },
      [](Json &json) { json["tensors"][0]["shape"] = {int64_t(1) << 40}; },
      [](Json &json) { json["tensors"][0]["shape"] = {INT64_MAX, INT64_MAX}; },
      [](Json &json) { json["tensors"][0]["pieced"] = {3, 5, 7, 11}; },
      [](Json &json) { json["tensors"][0]["name"] = "nobody's"; },
      [](Json &json) { json["tensors"][0]["dtype"] = "U8"; },
      [](Json &json) { json["eval_loss"] = nullptr; },
  };
  for (size_t i = 0; i < std::size(lies); ++i) {
    Json json = *parseJson(before, "manifest");
    lies[i](json);
    json.erase("hash");
    std::string text = dumpJson(json);
    json["hash"] = fnv1a64(text.data(), text.size());
    writeBytes(file, dumpJson(json));
    EXPECT_FALSE(restore().ok()) << i;
    EXPECT_FALSE(exportCheckpoint(folder / "ck/step-10", folder / "none", true).ok()) << i;
    EXPECT_FALSE(std::filesystem::exists(folder / "none")) << i;
  }
  writeBytes(file, before);
  EXPECT_TRUE(succeeded(restore()));
}

/// Files of programs that were killed at the worst moments.
TEST_F(CheckpointTest, PassesOverUnfinishedOnes) {
  fill(1);
  std::string before = stateBytes();
  ASSERT_TRUE(succeeded(save(10)));
  std::filesystem::create_directory(folder / "ck/.step-20.tmp-1");
  writeBytes(folder / "ck/.step-20.tmp-1/state.safetensors", "half of it");
  std::filesystem::create_directory(folder / "ck/step-30"); // an empty folder
  std::filesystem::create_directory(folder / "ck/step-40");
  std::filesystem::copy_file(folder / "ck/step-10/state.safetensors", folder / "ck/step-40/state.safetensors");
  std::filesystem::create_directory(folder / "ck/step-x");
  fill(2);
  ASSERT_TRUE(succeeded(restore()));
  EXPECT_EQ(name, "step-10");
  EXPECT_EQ(stateBytes(), before);
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_NE(warnings[0].find("passing over checkpoint step-40"), std::string::npos);
  // The next checkpoint removes them.
  ASSERT_TRUE(succeeded(save(50)));
  EXPECT_FALSE(std::filesystem::exists(folder / "ck/.step-20.tmp-1"));
}

/// If any bit of a checkpoint is flipped, the one before it is used, and no part of the damaged one is in the state.
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
    Result<TrainingPoint> point = restore();
    ASSERT_TRUE(succeeded(point)) << bad;
    ASSERT_EQ(name, "step-10") << bad;
    ASSERT_EQ(stateBytes(), before);
  }
  // Values that a user might edit.
  for (auto [from, to] : std::initializer_list<std::pair<const char *, const char *>>{
           {"\"epoch\":2", "\"epoch\":1"}, {"\"batch\":0", "\"batch\":3"}, {"\"seed\":18", "\"seed\":17"},
           {"\"step\":20", "\"step\":21"}, {"\"samples\":99", "\"samples\":98"}, {"\"shuffle\":true", "\"shuffle\":false"},
           {"\"batch_size\":4", "\"batch_size\":8"}, {"\"--lr\":\"0.1\"", "\"--lr\":\"0.2\""},
           {"\"model\":\"line\"", "\"model\":\"lines\""}, {"\"version\":2", "\"version\":3"}}) {
    std::string bad = text;
    size_t at = bad.find(from);
    ASSERT_NE(at, std::string::npos) << from << " in " << text;
    bad.replace(at, std::strlen(from), to);
    writeBytes(json, bad);
    warnings.clear();
    ASSERT_TRUE(succeeded(restore())) << bad;
    EXPECT_EQ(name, "step-10") << bad;
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_NE(warnings[0].find("passing over checkpoint step-20"), std::string::npos) << warnings[0];
  }
  // The manifest of another step is valid, but not in this folder.
  writeBytes(json, text);
  std::filesystem::copy(folder / "ck/step-20", folder / "ck/step-30");
  warnings.clear();
  ASSERT_TRUE(succeeded(restore()));
  EXPECT_EQ(name, "step-20");
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("has the manifest of step 20"), std::string::npos) << warnings[0];
  std::filesystem::remove_all(folder / "ck/step-30");
  writeBytes(file, "");
  writeBytes(folder / "ck/step-10/state.safetensors", "");
  EXPECT_TRUE(failsWith(restore(), "no usable checkpoint in '" + (folder / "ck")));
  // A copy that lacks them.
  std::filesystem::remove_all(folder / "ck/step-10");
  std::filesystem::remove_all(folder / "ck/step-20");
  EXPECT_TRUE(failsWith(restore(), "/latest' names a checkpoint, but the folder has none"));
  std::filesystem::remove(folder / "ck/latest");
  EXPECT_TRUE(succeeded(restore()));
  EXPECT_EQ(name, "");
}

/// Training that was resumed from before a damaged checkpoint saves earlier steps than that one.
TEST_F(CheckpointTest, DamagedOnesOfLaterStepsDoNotCount) {
  for (int64_t step : {10, 20, 30})
    ASSERT_TRUE(succeeded(save(step)));
  writeBytes(folder / "ck/step-20/manifest.json", "{}");
  writeBytes(folder / "ck/step-30/state.safetensors", "");
  ASSERT_TRUE(succeeded(save(15)));
  ASSERT_TRUE(succeeded(restore()));
  EXPECT_EQ(name, "step-15");
  EXPECT_EQ(names(), (std::vector<std::string>{"latest", "step-15"}));
}

TEST_F(CheckpointTest, OneProgramAtATime) {
  CheckpointFolder first = open();
  ASSERT_TRUE(succeeded(first.lock()));
  EXPECT_TRUE(failsWith(open().lock(), "another program keeps its checkpoints here"));
  {
    CheckpointFolder moved = std::move(first);
    EXPECT_TRUE(failsWith(open().lock(), "another program keeps its checkpoints here"));
  }
  EXPECT_TRUE(succeeded(open().lock()));
  // Nothing is written through a link with the name of the lock.
  std::filesystem::remove(folder / "ck/.lock");
  std::filesystem::create_symlink(folder / "victim", folder / "ck/.lock");
  EXPECT_FALSE(open().lock().ok());
  EXPECT_FALSE(std::filesystem::exists(folder / "victim"));
}

TEST_F(CheckpointTest, PlantedFoldersAreNotFollowed) {
  std::filesystem::create_directories(folder / "ck");
  std::filesystem::create_directory(folder / "other");
  for (std::string suffix : {std::to_string(getpid()), std::string("0")})
    std::filesystem::create_directory_symlink(folder / "other", folder / ("ck/.step-10.tmp-" + suffix));
  ASSERT_TRUE(succeeded(save(10)));
  EXPECT_TRUE(std::filesystem::is_empty(folder / "other"));
  EXPECT_FALSE(std::filesystem::is_symlink(folder / "ck/step-10"));
}

TEST_F(CheckpointTest, RefusesOtherPrograms) {
  manifest.program = {{"model", "sha256:1"}, {"optimizer", "adamw weight-decay 0.1"}, {"numerics", "fp32"}};
  ASSERT_TRUE(succeeded(save(10)));
  ASSERT_TRUE(succeeded(restore()));
  manifest.program["optimizer"] = "adamw weight-decay 0.2";
  EXPECT_TRUE(failsWith(restore(), "another training program: its optimizer is adamw weight-decay 0.1, this program's "
                                   "adamw weight-decay 0.2 (--resume-anyway"));
  EXPECT_TRUE(warnings.empty());
  EXPECT_TRUE(succeeded(restore(/*anyway=*/true)));
  manifest.program = {{"model", "sha256:2"}, {"optimizer", "adamw weight-decay 0.1"}, {"numerics", "bf16"}};
  EXPECT_TRUE(failsWith(restore(), "its model is sha256:1, this program's sha256:2; its numerics is fp32"));
  manifest.program.erase("model");
  EXPECT_TRUE(failsWith(restore(), "its model is sha256:1, this program's unknown"));
}

TEST_F(CheckpointTest, RefusesOtherFormats) {
  ASSERT_TRUE(succeeded(save(10)));
  writeBytes(folder / "ck/step-10/manifest.json",
             R"({"version":1,"model":"line","identity":"fnv1a64:1","hash":"fnv1a64c:1","step":10,"epoch":1,"batch":0,"seed":1,)"
             R"("shuffle":true,"samples":99,"batch_size":4})");
  EXPECT_TRUE(failsWith(restore(), "is of format 1, but this program reads checkpoints of format 2"));
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

/// On a file system of one page there is no room for a second checkpoint; the first one must stay complete.
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
  std::string moments = before.substr(16, 16);
  ChunkHasher hasher;
  hasher.add(file->contents().data(), file->contents().size());
  std::string hashes = std::move(hasher).text();
  fill(4);
  EXPECT_TRUE(failsWith(loadWeights(manifest, arena, path, "0000000000000000", weight), "contents have changed"));
  ASSERT_TRUE(succeeded(loadWeights(manifest, arena, path, hashes, weight)));
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
    EXPECT_EQ(fields.find(8)->second, s.name);
    EXPECT_EQ(fields.find(9)->second, std::string(arena.at(s), static_cast<size_t>(s.bytes)));
  }
  EXPECT_TRUE(tensors.rest.empty());
  manifest.state[0].bytes = int64_t(1) << 31;
  EXPECT_TRUE(failsWith(exportOnnx(manifest, arena, skeleton, path), "--save-weights"));
  EXPECT_EQ(readFile(path), text);
}

TEST_F(CheckpointTest, OnnxHoldsTheStateOfTheTrainingInfo) {
  fill(6);
  std::string path = folder / "m.onnx", info = "\x12\x06\x12\x04step"; // an algorithm named "step"
  std::string skeleton = std::string(fakeSkeleton, fakeSkeletonBytes) + info;
  manifest.trainingBytes = static_cast<int64_t>(info.size());
  manifest.state[2].trainingName = "v"; // w.momentum
  manifest.state[5].trainingName = "T"; // divisi.step
  ASSERT_TRUE(succeeded(exportOnnx(manifest, arena, skeleton, path)));
  std::string text = readFile(path);
  Wire model{std::string_view(text).substr(fakeSkeletonBytes)};
  EXPECT_EQ(model.next().first, 7u);
  auto [field, training] = model.next();
  EXPECT_EQ(field, 20u);
  EXPECT_TRUE(model.rest.empty());
  ASSERT_TRUE(training.starts_with(info));
  Wire rest{std::string_view(training).substr(info.size())};
  auto [algorithm, tensors] = rest.next();
  EXPECT_EQ(algorithm, 2u);
  EXPECT_TRUE(rest.rest.empty());
  Wire initializers{tensors};
  for (size_t i : {2, 5}) {
    auto [number, tensor] = initializers.next();
    EXPECT_EQ(number, 5u);
    const State &s = manifest.state[i];
    EXPECT_NE(tensor.find(s.trainingName), std::string::npos);
    EXPECT_TRUE(tensor.ends_with(std::string(arena.at(s), static_cast<size_t>(s.bytes))));
  }
  EXPECT_TRUE(initializers.rest.empty());
}
} // namespace
