#include "runtime/data/Paths.h"
#include "runtime/data/images/Decode.h"
#include "runtime/data/images/Framing.h"
#include "runtime/data/images/SampleWorkers.h"
#include "runtime/data/images/TarReader.h"
#include "test/runtime/Util.h"

using namespace divisi::runtime;
using namespace divisi::test;

namespace {
/// The files of a folder of the fuzzers' corpus, by name.
std::map<std::string, std::string> corpus(const std::string &name) {
  std::map<std::string, std::string> files;
  for (const auto &entry : std::filesystem::directory_iterator(std::filesystem::path(RUNTIME_CORPUS) / name))
    files[entry.path().filename().string()] = readFile(entry.path().string());
  return files;
}

/// Bytes with some bits flipped, and in a third of all cases with the end cut off.
std::string damaged(std::string bytes, std::mt19937 &random) {
  for (uint32_t flips = 1 + random() % 8; flips-- > 0;)
    bytes[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8);
  if (random() % 3 == 0)
    bytes.resize(random() % bytes.size());
  return bytes;
}

TEST(ImagesTest, DamagedImagesAreDecodedOrRefused) {
  std::mt19937 random(1);
  int decoded = 0, refused = 0;
  Pixels image, scratch;
  for (const auto &[name, bytes] : corpus("image")) {
    ASSERT_TRUE(succeeded(decodeImage(bytes, 3, image, scratch))) << name;
    EXPECT_EQ(image.width, 12) << name;
    for (int i = 0; i < 60; ++i) {
      int64_t channels = i % 2 ? 1 : 3;
      Status status = decodeImage(damaged(bytes, random), channels, image, scratch);
      (status.ok() ? decoded : refused) += 1;
      if (status.ok()) {
        EXPECT_EQ(image.data.size(), static_cast<size_t>(image.width * image.height * channels)) << name;
        EXPECT_EQ(image.channels, channels) << name;
      } else {
        EXPECT_EQ(status.message().find('\n'), std::string::npos) << status.message();
      }
    }
  }
  EXPECT_GE(decoded + refused, 900);
  EXPECT_GT(decoded, 100);
  EXPECT_GT(refused, 300);
}

TEST(ImagesTest, MemoryOfLargeImagesIsFreed) {
  Pixels pixels;
  pixels.resize(100, 10, 3);
  pixels.keepAtMost(3000);
  EXPECT_GE(pixels.data.capacity(), 3000U);
  pixels.keepAtMost(2999);
  EXPECT_EQ(pixels.data.capacity(), 0U);
  EXPECT_EQ(pixels.width, 0);
}

TEST(ImagesTest, TruncatedImagesAreRefused) {
  Pixels image, scratch;
  for (const auto &[name, bytes] : corpus("image"))
    for (size_t kept = 0; kept + 40 < bytes.size(); kept += 7)
      EXPECT_FALSE(decodeImage(std::string_view(bytes).substr(0, kept), 3, image, scratch).ok()) << name << " " << kept;
}

TEST(ImagesTest, DamagedTarFilesAreReadOrRefused) {
  std::mt19937 random(1);
  int members = 0;
  for (const auto &[name, bytes] : corpus("tar"))
    for (int i = 0; i < 200; ++i) {
      std::string text = i == 0 ? bytes : damaged(bytes, random);
      auto size = static_cast<int64_t>(text.size());
      Status status = forEachMember(text, [&](const TarMember &member) -> Status {
        EXPECT_TRUE(member.offset >= 0 && member.bytes >= 0 && member.bytes <= size - member.offset) << name;
        members += 1;
        return {};
      });
      EXPECT_TRUE(i > 0 || succeeded(status)) << name;
    }
  EXPECT_GT(members, 100);
}

TEST(ImagesTest, OneColourStaysOneColour) {
  Pixels image, to, scratch;
  for (int64_t channels : {1, 3})
    for (auto [width, height] : {std::pair<int64_t, int64_t>(1, 1), {1, 300}, {300, 1}, {7, 5}, {40, 200}})
      for (auto [newWidth, newHeight] : {std::pair<int64_t, int64_t>(1, 1), {9, 4}, {64, 33}, {3, 90}}) {
        image.resize(width, height, channels);
        std::fill(image.data.begin(), image.data.end(), 201);
        Box crop{newWidth / 3, newHeight / 2, newWidth - newWidth / 3, newHeight - newHeight / 2};
        resample(image, {width / 2, height / 3, width - width / 2, height - height / 3}, newWidth, newHeight, crop, to,
                 scratch);
        ASSERT_EQ(to.data.size(), static_cast<size_t>(crop.width * crop.height * channels));
        EXPECT_TRUE(std::all_of(to.data.begin(), to.data.end(), [](uint8_t v) { return v == 201; }))
            << width << " x " << height << " to " << newWidth << " x " << newHeight;
      }
}

/// A line of four pixels becomes two: the triangle around the first is 3/4, 3/4 and 1/4 high at three of them, whose
/// sum is 7/4.
TEST(ImagesTest, TriangleOfTwoPixels) {
  Pixels image, to, scratch;
  image.resize(4, 1, 1);
  image.data = {0, 70, 140, 210};
  resample(image, {0, 0, 4, 1}, 2, 1, {0, 0, 2, 1}, to, scratch);
  EXPECT_EQ(to.data, (std::vector<uint8_t>{(3 * 0 + 3 * 70 + 140) / 7, (70 + 3 * 140 + 3 * 210) / 7}));
}

TEST(ImagesTest, ExtremeShapesHaveAMiddleAndRandomParts) {
  for (auto [width, height] :
       {std::pair<int64_t, int64_t>(1, 1), {1, mostPixels}, {mostPixels, 1}, {13000, 13000}, {2, 3}})
    for (int64_t size : {1, 2, 224})
      for (int64_t shorter : {int64_t(0), size, size + 32}) {
        Framing middle = middleOf(width, height, size, size, shorter);
        EXPECT_TRUE(middle.crop.x >= 0 && middle.crop.y >= 0 && middle.crop.x + size <= middle.width &&
                    middle.crop.y + size <= middle.height);
        Draws draws(Draws::keyOf(1, 2), size + shorter);
        Box part = randomPartOf(width, height, size, size, draws).source;
        EXPECT_TRUE(part.x >= 0 && part.y >= 0 && part.width > 0 && part.height > 0 && part.x + part.width <= width &&
                    part.y + part.height <= height);
      }
}

TEST(ImagesTest, WorkersPrepareWhatIsExpected) {
  for (int count : {1, 4}) {
    std::atomic<int> made = 0;
    SampleWorkers workers(count, [&](int64_t sample, std::vector<char> &to) -> Status {
      made += 1;
      if (sample == 13)
        return failure("unlucky");
      if (sample == 14)
        throw std::bad_alloc();
      to.assign(1, static_cast<char>(sample));
      return {};
    });
    for (int64_t first = 0; first < 100; first += 2) {
      workers.expect({first, first + 1, first + 2, first + 3});
      for (int64_t sample : {first + 1, first}) {
        auto bytes = workers.take(sample);
        EXPECT_EQ(bytes.ok(), sample != 13 && sample != 14);
        if (bytes.ok())
          EXPECT_EQ((**bytes)[0], sample);
      }
    }
    workers.clear();
    EXPECT_LE(made, 102); // each once
  }
}

TEST(ImagesTest, RangesOfFiles) {
  EXPECT_EQ(*expandPattern("none-{08..11}.tar"),
            (std::vector<std::string>{"none-08.tar", "none-09.tar", "none-10.tar", "none-11.tar"}));
  EXPECT_EQ(*expandPattern("none-{3..1}.tar"), std::vector<std::string>{"none-{3..1}.tar"});
  EXPECT_EQ(*expandPattern("none-{a..b}.tar"), std::vector<std::string>{"none-{a..b}.tar"});
  EXPECT_EQ(*expandPattern("none-{9223372036854775806..9223372036854775807}.tar"),
            (std::vector<std::string>{"none-9223372036854775806.tar", "none-9223372036854775807.tar"}));
  EXPECT_FALSE(expandPattern("none-*.tar").ok());
}
} // namespace
