#include "compiler/Profile/Calibrations.h"

#include "gtest/gtest.h"
#include "test/passes/Planning/Unwrap.h"

#include <filesystem>
#include <fstream>
#include <random>

using namespace divisi;
using namespace divisi::compiler;
using divisi::test::unwrap;

namespace {

class CalibrationFiles : public ::testing::Test {
protected:
  void SetUp() override {
    folder = std::filesystem::temp_directory_path() / ("divisi-calibrations-" + std::to_string(std::random_device{}()));
    std::filesystem::create_directories(folder);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }
  std::string errorOf(const std::string &text) {
    std::ofstream(folder / "wrong.json") << text;
    std::string error;
    EXPECT_FALSE(unwrap(Calibrations::read((folder / "wrong.json").string()), error)) << text;
    return error;
  }
  std::filesystem::path folder;
};

const planning::Rates ofCore{2e11, 1e10, 4e11, {{1e5, 1e11}, {1e8, 2e11}}, {{1e6, 5e10}}, {{1 << 19, 6e10}}, {{1e6, 4e10}}, {{1 << 18, 2e10}}};
const planning::Rates ofAll{3e11, 2e10, 7e11, {{1e5, 1e11}, {1e8, 3e11}}, {{1e6, 9e10}}, {{1 << 20, 1e11}}, {{1e6, 7e10}}, {{1 << 18, 3e10}}};
const planning::Calibration figures{5e9, ofCore, ofAll, 2e9};

TEST_F(CalibrationFiles, GiveBackWhatWasWritten) {
  std::string path = (folder / "deep/er/calibration.json").string(), error;
  Calibrations one;
  one.machines["a processor, 2 cores"] = figures;
  one.machines["another, 64 cores"] = {1e10, {1e11, 1e10, 0, {}, {}, {}}, {1e12, 1e11, 0, {}, {}, {}}};
  EXPECT_EQ(llvm::toString(one.write(path)), "");
  auto again = unwrap(Calibrations::read(path), error);
  ASSERT_TRUE(again) << error;
  EXPECT_EQ(again->machines, one.machines);
  EXPECT_EQ(again->machines["a processor, 2 cores"].name(), figures.name());
  auto none = unwrap(Calibrations::read((folder / "none.json").string()), error);
  ASSERT_TRUE(none) << error;
  EXPECT_TRUE(none->machines.empty());
}

TEST_F(CalibrationFiles, RefuseWhatIsNone) {
  for (const char *text : {"", "{", "[]", "{}", "{\"divisi_calibration\": 7, \"machines\": {}}", "\x00\xff", "[[[[[[[[[[[[[[[[[[[["})
    EXPECT_NE(errorOf(text).find("wrong.json' is no"), std::string::npos) << text;
  const std::string rates = R"({"flops": 1e10, "bandwidth": 1e10, "matmuls": [[1e5, 1e10]], "convolutions": [], "filters": [], "kernels": [], "packings": []})";
  const std::string good = R"("message": 1e9, "large": 0, "all": {"flops": 1e11, "bandwidth": 1e10, "matmuls": [[1e5, 1e10]],
    "convolutions": [], "filters": [], "kernels": [], "packings": []}, "core": )" + rates;
  auto machine = [](const std::string &figures) {
    return R"({"divisi_calibration": 6, "machines": {"a processor": {)" + figures + "}}}";
  };
  std::ofstream(folder / "good.json") << machine(good);
  std::string error;
  EXPECT_TRUE(unwrap(Calibrations::read((folder / "good.json").string()), error)) << error;
  const char *wrong[][2] = {{"1e11", "-1"},          {"1e11", "1e300"},           {"1e11", "\"fast\""},
                            {"\"message\"", "\"m\""}, {"[1e5, 1e10]", "[1e5]"},    {"[1e5, 1e10]", "[1e5, 0]"},
                            {"[1e5, 1e10]", "[9, 9], [9, 9]"},                     {"[1e5, 1e10]", "7"},
                            {"\"kernels\": []", "\"kernels\": {}"}, {"\"kernels\": []", "\"kernels\": [], \"bf16\": -1"},
                            {"\"kernels\": []", "\"kernels\": [], \"bf16\": 1e300"},
                            {"\"kernels\": []", "\"kernels\": [[1e5, 1e10]]"}, {"\"packings\": []", "\"packings\": [[1e5, 1e10]]"},
                            {"\"packings\"", "\"packing\""}, {"\"large\": 0", "\"large\": -1"}, {"\"large\": 0", "\"large\": 1e-200"}, {"\"large\"", "\"huge\""},
                            {"\"core\"", "\"cores\""}};
  for (auto [from, to] : wrong) {
    std::string text = good;
    text.replace(text.find(from), std::string(from).size(), to);
    EXPECT_NE(errorOf(machine(text)).find("the figures of 'a processor' are not those of a machine"), std::string::npos) << text;
  }
  // An error is one line.
  EXPECT_EQ(errorOf(R"({"divisi_calibration": 6, "machines": {"a\nb": {}}})").find('\n'), std::string::npos);
}

TEST(Calibration, NamesFigures) {
  planning::Calibration other = figures;
  EXPECT_EQ(figures.name().size(), 8u);
  EXPECT_EQ(other.name(), figures.name());
  other.all.kernels[0].rate *= 1.001;
  EXPECT_NE(other.name(), figures.name());
  other = figures;
  other.core.bf16 *= 2;
  EXPECT_NE(other.name(), figures.name());
  other = figures;
  other.core.packings[0].rate *= 2;
  EXPECT_NE(other.name(), figures.name());
  other = figures;
  other.large *= 2;
  EXPECT_NE(other.name(), figures.name());
}
} // namespace
